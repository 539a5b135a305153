# What a machine has: its disk, its card, its console. Lists may be numbered from 0.
> Action=RunInstances&ImageId=ami-12345678&InstanceType=c3.xlarge&MinCount=1&MaxCount=1
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
            <blockDeviceMapping>
                <item>
                    <deviceName>/dev/xvda</deviceName>
                    <ebs>
                        <volumeId>vol-1da0d28a326013512</volumeId>
                        <status>attached</status>
                        <attachTime>2014-04-01T00:00:00.000Z</attachTime>
                        <deleteOnTermination>true</deleteOnTermination>
                    </ebs>
                </item>
            </blockDeviceMapping>
            <virtualizationType>hvm</virtualizationType>
            <clientToken></clientToken>
            <hypervisor>xen</hypervisor>
            <networkInterfaceSet>
                <item>
                    <networkInterfaceId>eni-1da0d28a326013512</networkInterfaceId>
                    <subnetId>subnet-52093ebd783d07b9b</subnetId>
                    <vpcId>vpc-d53106ac209bc96f4</vpcId>
                    <ownerId>000000000000</ownerId>
                    <status>in-use</status>
                    <interfaceType>interface</interfaceType>
                    <privateIpAddress>172.31.0.4</privateIpAddress>
                    <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
                    <sourceDestCheck>true</sourceDestCheck>
                    <groupSet>
                        <item>
                            <groupId>sg-cee7fd4c2282bddc6</groupId>
                            <groupName>default</groupName>
                        </item>
                    </groupSet>
                    <attachment>
                        <attachmentId>eni-attach-1da0d28a326013512</attachmentId>
                        <deviceIndex>0</deviceIndex>
                        <status>attached</status>
                        <attachTime>2014-04-01T00:00:00.000Z</attachTime>
                        <deleteOnTermination>true</deleteOnTermination>
                    </attachment>
                    <association>
                        <publicIp>127.0.0.1</publicIp>
                        <ipOwnerId>amazon</ipOwnerId>
                    </association>
                    <privateIpAddressesSet>
                        <item>
                            <privateIpAddress>172.31.0.4</privateIpAddress>
                            <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
                            <primary>true</primary>
                            <association>
                                <publicIp>127.0.0.1</publicIp>
                                <ipOwnerId>amazon</ipOwnerId>
                            </association>
                        </item>
                    </privateIpAddressesSet>
                </item>
            </networkInterfaceSet>
            <ebsOptimized>false</ebsOptimized>
            <hibernationOptions>
                <configured>false</configured>
            </hibernationOptions>
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

@ +1m
> Action=DescribeVolumes
200
<DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <volumeSet>
        <item>
            <volumeId>vol-1da0d28a326013512</volumeId>
            <size>8</size>
            <availabilityZone>us-west-1a</availabilityZone>
            <status>in-use</status>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <volumeType>gp3</volumeType>
            <attachmentSet>
                <item>
                    <volumeId>vol-1da0d28a326013512</volumeId>
                    <instanceId>i-1da0d28a326013512</instanceId>
                    <device>/dev/xvda</device>
                    <status>attached</status>
                    <attachTime>2014-04-01T00:00:00.000Z</attachTime>
                    <deleteOnTermination>true</deleteOnTermination>
                </item>
            </attachmentSet>
            <encrypted>false</encrypted>
        </item>
    </volumeSet>
</DescribeVolumesResponse>

> Action=DescribeVolumes&Filter.1.Name=status&Filter.1.Value.1=available
200
<DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <volumeSet></volumeSet>
</DescribeVolumesResponse>

> Action=DescribeNetworkInterfaces&Filter.1.Name=attachment.instance-id&Filter.1.Value.1={i1}
200
<DescribeNetworkInterfacesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <networkInterfaceSet>
        <item>
            <networkInterfaceId>eni-1da0d28a326013512</networkInterfaceId>
            <subnetId>subnet-52093ebd783d07b9b</subnetId>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <ownerId>000000000000</ownerId>
            <status>in-use</status>
            <interfaceType>interface</interfaceType>
            <privateIpAddress>172.31.0.4</privateIpAddress>
            <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
            <sourceDestCheck>true</sourceDestCheck>
            <groupSet>
                <item>
                    <groupId>sg-cee7fd4c2282bddc6</groupId>
                    <groupName>default</groupName>
                </item>
            </groupSet>
            <attachment>
                <attachmentId>eni-attach-1da0d28a326013512</attachmentId>
                <deviceIndex>0</deviceIndex>
                <status>attached</status>
                <attachTime>2014-04-01T00:00:00.000Z</attachTime>
                <deleteOnTermination>true</deleteOnTermination>
            </attachment>
            <association>
                <publicIp>127.0.0.1</publicIp>
                <ipOwnerId>amazon</ipOwnerId>
            </association>
            <privateIpAddressesSet>
                <item>
                    <privateIpAddress>172.31.0.4</privateIpAddress>
                    <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
                    <primary>true</primary>
                    <association>
                        <publicIp>127.0.0.1</publicIp>
                        <ipOwnerId>amazon</ipOwnerId>
                    </association>
                </item>
            </privateIpAddressesSet>
            <availabilityZone>us-west-1a</availabilityZone>
        </item>
    </networkInterfaceSet>
</DescribeNetworkInterfacesResponse>

> Action=DescribeAddresses
200
<DescribeAddressesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000005</requestId>
    <addressesSet></addressesSet>
</DescribeAddressesResponse>

> Action=RebootInstances&InstanceId.0={i1}
200
<RebootInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000006</requestId>
    <return>true</return>
</RebootInstancesResponse>

> Action=RebootInstances&InstanceId.1=i-00000000
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceID.NotFound</Code>
            <Message>The instance ID &#39;i-00000000&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000007</RequestID>
</Response>

> Action=GetConsoleOutput&InstanceId={i1}
200
<GetConsoleOutputResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000008</requestId>
    <instanceId>i-1da0d28a326013512</instanceId>
    <timestamp>2014-04-01T00:01:00.000Z</timestamp>
    <output></output>
</GetConsoleOutputResponse>

# Parameters that change what a call does are refused where they are not spoken.
> Action=RequestSpotInstances&LaunchSpecification.ImageId=ami-12345678&LaunchSpecification.InstanceType=c3.xlarge&BlockDurationMinutes=60
400
<Response>
    <Errors>
        <Error>
            <Code>Unsupported</Code>
            <Message>The parameter BlockDurationMinutes is not supported here.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000009</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-12345678&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.ValidUntil=2030-01-01T00:00:00Z
400
<Response>
    <Errors>
        <Error>
            <Code>Unsupported</Code>
            <Message>The parameter InstanceMarketOptions.SpotOptions.ValidUntil is not supported here.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000a</RequestID>
</Response>

> Action=GetInstanceTypesFromInstanceRequirements&ArchitectureType.1=x86_64&VirtualizationType.1=hvm&InstanceRequirements.VCpuCount.Min=1&InstanceRequirements.MemoryMiB.Min=1&InstanceRequirements.BurstablePerformance=required
200
<GetInstanceTypesFromInstanceRequirementsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000b</requestId>
    <instanceTypeSet></instanceTypeSet>
</GetInstanceTypesFromInstanceRequirementsResponse>

