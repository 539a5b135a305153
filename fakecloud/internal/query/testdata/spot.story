# A spot instance from launch to eviction.
> Action=RunInstances&Version=2016-11-15&ImageId=ami-12345678&InstanceType=c3.xlarge&MinCount=1&MaxCount=1
> &InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.2390000000000
> &Placement.AvailabilityZone=us-west-1a&UserData=aGVsbG8%3D&ClientToken=one
> &TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=job&TagSpecification.1.Tag.1.Value=demo
> &SecurityGroup.1=default&MetadataOptions.HttpTokens=required
200
<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000001</requestId>
    <reservationId>r-44ffd670373170de4</reservationId>
    <ownerId>000000000000</ownerId>
    <groupSet></groupSet>
    <instancesSet>
        <item>
            <instanceId>i-1da0d28a326013512</instanceId>
            <imageId>ami-12345678</imageId>
            <instanceState>
                <code>0</code>
                <name>pending</name>
            </instanceState>
            <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
            <dnsName></dnsName>
            <privateIpAddress>172.31.0.4</privateIpAddress>
            <ipAddress>127.0.0.1</ipAddress>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <subnetId>subnet-52093ebd783d07b9b</subnetId>
            <reason></reason>
            <amiLaunchIndex>0</amiLaunchIndex>
            <productCodes></productCodes>
            <instanceType>c3.xlarge</instanceType>
            <launchTime>2014-04-01T00:00:00.000Z</launchTime>
            <placement>
                <availabilityZone>us-west-1a</availabilityZone>
                <groupName></groupName>
                <tenancy>default</tenancy>
            </placement>
            <monitoring>
                <state>disabled</state>
            </monitoring>
            <groupSet>
                <item>
                    <groupId>sg-cee7fd4c2282bddc6</groupId>
                    <groupName>default</groupName>
                </item>
            </groupSet>
            <stateReason>
                <code>pending</code>
                <message>pending</message>
            </stateReason>
            <architecture>x86_64</architecture>
            <rootDeviceType>ebs</rootDeviceType>
            <rootDeviceName>/dev/xvda</rootDeviceName>
            <blockDeviceMapping></blockDeviceMapping>
            <virtualizationType>hvm</virtualizationType>
            <instanceLifecycle>spot</instanceLifecycle>
            <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
            <clientToken>one</clientToken>
            <tagSet>
                <item>
                    <key>job</key>
                    <value>demo</value>
                </item>
            </tagSet>
            <hypervisor>xen</hypervisor>
            <networkInterfaceSet></networkInterfaceSet>
            <ebsOptimized>false</ebsOptimized>
            <cpuOptions>
                <coreCount>4</coreCount>
                <threadsPerCore>1</threadsPerCore>
            </cpuOptions>
            <metadataOptions>
                <state>applied</state>
                <httpTokens>required</httpTokens>
                <httpPutResponseHopLimit>1</httpPutResponseHopLimit>
                <httpEndpoint>enabled</httpEndpoint>
                <httpProtocolIpv6>disabled</httpProtocolIpv6>
                <instanceMetadataTags>enabled</instanceMetadataTags>
            </metadataOptions>
            <platformDetails>Linux/UNIX</platformDetails>
        </item>
    </instancesSet>
</RunInstancesResponse>

# The same again changes nothing.
> Action=RunInstances&Version=2016-11-15&ImageId=ami-12345678&InstanceType=c3.xlarge&MinCount=1&MaxCount=1
> &InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.2390000000000
> &Placement.AvailabilityZone=us-west-1a&UserData=aGVsbG8%3D&ClientToken=one
> &TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=job&TagSpecification.1.Tag.1.Value=demo
> &SecurityGroup.1=default&MetadataOptions.HttpTokens=required
200
<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <reservationId>r-44ffd670373170de4</reservationId>
    <ownerId>000000000000</ownerId>
    <groupSet></groupSet>
    <instancesSet>
        <item>
            <instanceId>i-1da0d28a326013512</instanceId>
            <imageId>ami-12345678</imageId>
            <instanceState>
                <code>0</code>
                <name>pending</name>
            </instanceState>
            <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
            <dnsName></dnsName>
            <privateIpAddress>172.31.0.4</privateIpAddress>
            <ipAddress>127.0.0.1</ipAddress>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <subnetId>subnet-52093ebd783d07b9b</subnetId>
            <reason></reason>
            <amiLaunchIndex>0</amiLaunchIndex>
            <productCodes></productCodes>
            <instanceType>c3.xlarge</instanceType>
            <launchTime>2014-04-01T00:00:00.000Z</launchTime>
            <placement>
                <availabilityZone>us-west-1a</availabilityZone>
                <groupName></groupName>
                <tenancy>default</tenancy>
            </placement>
            <monitoring>
                <state>disabled</state>
            </monitoring>
            <groupSet>
                <item>
                    <groupId>sg-cee7fd4c2282bddc6</groupId>
                    <groupName>default</groupName>
                </item>
            </groupSet>
            <stateReason>
                <code>pending</code>
                <message>pending</message>
            </stateReason>
            <architecture>x86_64</architecture>
            <rootDeviceType>ebs</rootDeviceType>
            <rootDeviceName>/dev/xvda</rootDeviceName>
            <blockDeviceMapping></blockDeviceMapping>
            <virtualizationType>hvm</virtualizationType>
            <instanceLifecycle>spot</instanceLifecycle>
            <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
            <clientToken>one</clientToken>
            <tagSet>
                <item>
                    <key>job</key>
                    <value>demo</value>
                </item>
            </tagSet>
            <hypervisor>xen</hypervisor>
            <networkInterfaceSet></networkInterfaceSet>
            <ebsOptimized>false</ebsOptimized>
            <cpuOptions>
                <coreCount>4</coreCount>
                <threadsPerCore>1</threadsPerCore>
            </cpuOptions>
            <metadataOptions>
                <state>applied</state>
                <httpTokens>required</httpTokens>
                <httpPutResponseHopLimit>1</httpPutResponseHopLimit>
                <httpEndpoint>enabled</httpEndpoint>
                <httpProtocolIpv6>disabled</httpProtocolIpv6>
                <instanceMetadataTags>enabled</instanceMetadataTags>
            </metadataOptions>
            <platformDetails>Linux/UNIX</platformDetails>
        </item>
    </instancesSet>
</RunInstancesResponse>

# The same token with other parameters does not.
> Action=RunInstances&ImageId=ami-12345678&InstanceType=c3.xlarge&MinCount=1&MaxCount=2&ClientToken=one
400
<Response>
    <Errors>
        <Error>
            <Code>IdempotentParameterMismatch</Code>
            <Message>Arguments on this idempotent request are inconsistent with arguments used in previous request(s).</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000003</RequestID>
</Response>

@ 1m
> Action=DescribeInstances&Filter.1.Name=tag:job&Filter.1.Value.1=dem*&Filter.2.Name=instance-lifecycle&Filter.2.Value.1=spot
200
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <reservationSet>
        <item>
            <reservationId>r-44ffd670373170de4</reservationId>
            <ownerId>000000000000</ownerId>
            <groupSet></groupSet>
            <instancesSet>
                <item>
                    <instanceId>i-1da0d28a326013512</instanceId>
                    <imageId>ami-12345678</imageId>
                    <instanceState>
                        <code>16</code>
                        <name>running</name>
                    </instanceState>
                    <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
                    <dnsName></dnsName>
                    <privateIpAddress>172.31.0.4</privateIpAddress>
                    <ipAddress>127.0.0.1</ipAddress>
                    <vpcId>vpc-d53106ac209bc96f4</vpcId>
                    <subnetId>subnet-52093ebd783d07b9b</subnetId>
                    <reason></reason>
                    <amiLaunchIndex>0</amiLaunchIndex>
                    <productCodes></productCodes>
                    <instanceType>c3.xlarge</instanceType>
                    <launchTime>2014-04-01T00:00:00.000Z</launchTime>
                    <placement>
                        <availabilityZone>us-west-1a</availabilityZone>
                        <groupName></groupName>
                        <tenancy>default</tenancy>
                    </placement>
                    <monitoring>
                        <state>disabled</state>
                    </monitoring>
                    <groupSet>
                        <item>
                            <groupId>sg-cee7fd4c2282bddc6</groupId>
                            <groupName>default</groupName>
                        </item>
                    </groupSet>
                    <architecture>x86_64</architecture>
                    <rootDeviceType>ebs</rootDeviceType>
                    <rootDeviceName>/dev/xvda</rootDeviceName>
                    <blockDeviceMapping></blockDeviceMapping>
                    <virtualizationType>hvm</virtualizationType>
                    <instanceLifecycle>spot</instanceLifecycle>
                    <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
                    <clientToken>one</clientToken>
                    <tagSet>
                        <item>
                            <key>job</key>
                            <value>demo</value>
                        </item>
                    </tagSet>
                    <hypervisor>xen</hypervisor>
                    <networkInterfaceSet></networkInterfaceSet>
                    <ebsOptimized>false</ebsOptimized>
                    <cpuOptions>
                        <coreCount>4</coreCount>
                        <threadsPerCore>1</threadsPerCore>
                    </cpuOptions>
                    <metadataOptions>
                        <state>applied</state>
                        <httpTokens>required</httpTokens>
                        <httpPutResponseHopLimit>1</httpPutResponseHopLimit>
                        <httpEndpoint>enabled</httpEndpoint>
                        <httpProtocolIpv6>disabled</httpProtocolIpv6>
                        <instanceMetadataTags>enabled</instanceMetadataTags>
                    </metadataOptions>
                    <platformDetails>Linux/UNIX</platformDetails>
                </item>
            </instancesSet>
        </item>
    </reservationSet>
</DescribeInstancesResponse>

> Action=DescribeInstances&Filter.1.Name=instance-state-name&Filter.1.Value.1=pending&Filter.1.Value.2=terminated
200
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000005</requestId>
    <reservationSet></reservationSet>
</DescribeInstancesResponse>

@ 31m
> Action=DescribeSpotInstanceRequests&Filter.1.Name=status-code&Filter.1.Value.1=marked-for-termination
200
<DescribeSpotInstanceRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000006</requestId>
    <spotInstanceRequestSet>
        <item>
            <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
            <spotPrice>0.239000</spotPrice>
            <type>one-time</type>
            <state>active</state>
            <status>
                <code>marked-for-termination</code>
                <updateTime>2014-04-01T00:30:00.000Z</updateTime>
                <message>Your Spot instance is marked for termination because the Spot price is above your maximum price.</message>
            </status>
            <launchSpecification>
                <imageId>ami-12345678</imageId>
                <instanceType>c3.xlarge</instanceType>
                <placement>
                    <availabilityZone>us-west-1a</availabilityZone>
                </placement>
            </launchSpecification>
            <instanceId>i-1da0d28a326013512</instanceId>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <productDescription>Linux/UNIX</productDescription>
            <launchedAvailabilityZone>us-west-1a</launchedAvailabilityZone>
            <instanceInterruptionBehavior>terminate</instanceInterruptionBehavior>
        </item>
    </spotInstanceRequestSet>
</DescribeSpotInstanceRequestsResponse>

@ 33m
> Action=DescribeSpotInstanceRequests&SpotInstanceRequestId.1={r1}
200
<DescribeSpotInstanceRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000007</requestId>
    <spotInstanceRequestSet>
        <item>
            <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
            <spotPrice>0.239000</spotPrice>
            <type>one-time</type>
            <state>closed</state>
            <status>
                <code>instance-terminated-by-price</code>
                <updateTime>2014-04-01T00:32:00.000Z</updateTime>
                <message>Your Spot instance was terminated because the Spot price rose above your maximum price.</message>
            </status>
            <launchSpecification>
                <imageId>ami-12345678</imageId>
                <instanceType>c3.xlarge</instanceType>
                <placement>
                    <availabilityZone>us-west-1a</availabilityZone>
                </placement>
            </launchSpecification>
            <instanceId>i-1da0d28a326013512</instanceId>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <productDescription>Linux/UNIX</productDescription>
            <launchedAvailabilityZone>us-west-1a</launchedAvailabilityZone>
            <instanceInterruptionBehavior>terminate</instanceInterruptionBehavior>
        </item>
    </spotInstanceRequestSet>
</DescribeSpotInstanceRequestsResponse>

> Action=DescribeInstances&InstanceId.1={i1}
200
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000008</requestId>
    <reservationSet>
        <item>
            <reservationId>r-44ffd670373170de4</reservationId>
            <ownerId>000000000000</ownerId>
            <groupSet></groupSet>
            <instancesSet>
                <item>
                    <instanceId>i-1da0d28a326013512</instanceId>
                    <imageId>ami-12345678</imageId>
                    <instanceState>
                        <code>32</code>
                        <name>shutting-down</name>
                    </instanceState>
                    <privateDnsName></privateDnsName>
                    <dnsName></dnsName>
                    <reason>Service initiated (2014-04-01 00:32:00 GMT)</reason>
                    <amiLaunchIndex>0</amiLaunchIndex>
                    <productCodes></productCodes>
                    <instanceType>c3.xlarge</instanceType>
                    <launchTime>2014-04-01T00:00:00.000Z</launchTime>
                    <placement>
                        <availabilityZone>us-west-1a</availabilityZone>
                        <groupName></groupName>
                        <tenancy>default</tenancy>
                    </placement>
                    <monitoring>
                        <state>disabled</state>
                    </monitoring>
                    <groupSet></groupSet>
                    <stateReason>
                        <code>Server.SpotInstanceTermination</code>
                        <message>Server.SpotInstanceTermination: Spot instance termination</message>
                    </stateReason>
                    <architecture>x86_64</architecture>
                    <rootDeviceType>ebs</rootDeviceType>
                    <rootDeviceName>/dev/xvda</rootDeviceName>
                    <blockDeviceMapping></blockDeviceMapping>
                    <virtualizationType>hvm</virtualizationType>
                    <instanceLifecycle>spot</instanceLifecycle>
                    <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
                    <clientToken>one</clientToken>
                    <tagSet>
                        <item>
                            <key>job</key>
                            <value>demo</value>
                        </item>
                    </tagSet>
                    <hypervisor>xen</hypervisor>
                    <networkInterfaceSet></networkInterfaceSet>
                    <ebsOptimized>false</ebsOptimized>
                    <cpuOptions>
                        <coreCount>4</coreCount>
                        <threadsPerCore>1</threadsPerCore>
                    </cpuOptions>
                    <metadataOptions>
                        <state>applied</state>
                        <httpTokens>required</httpTokens>
                        <httpPutResponseHopLimit>1</httpPutResponseHopLimit>
                        <httpEndpoint>enabled</httpEndpoint>
                        <httpProtocolIpv6>disabled</httpProtocolIpv6>
                        <instanceMetadataTags>enabled</instanceMetadataTags>
                    </metadataOptions>
                    <platformDetails>Linux/UNIX</platformDetails>
                </item>
            </instancesSet>
        </item>
    </reservationSet>
</DescribeInstancesResponse>

> Action=TerminateInstances&InstanceId.1={i1}
200
<TerminateInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000009</requestId>
    <instancesSet>
        <item>
            <instanceId>i-1da0d28a326013512</instanceId>
            <currentState>
                <code>32</code>
                <name>shutting-down</name>
            </currentState>
            <previousState>
                <code>32</code>
                <name>shutting-down</name>
            </previousState>
        </item>
    </instancesSet>
</TerminateInstancesResponse>

