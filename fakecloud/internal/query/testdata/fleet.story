> Action=CreateLaunchTemplate&LaunchTemplateName=worker&LaunchTemplateData.ImageId=ami-1&LaunchTemplateData.InstanceType=c3.xlarge
> &LaunchTemplateData.UserData=aGk%3D&TagSpecification.1.ResourceType=launch-template&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v
200
<CreateLaunchTemplateResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000001</requestId>
    <launchTemplate>
        <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
        <launchTemplateName>worker</launchTemplateName>
        <createTime>2014-04-01T00:00:00.000Z</createTime>
        <createdBy>arn:aws:iam::000000000000:root</createdBy>
        <defaultVersionNumber>1</defaultVersionNumber>
        <latestVersionNumber>1</latestVersionNumber>
        <tagSet>
            <item>
                <key>k</key>
                <value>v</value>
            </item>
        </tagSet>
    </launchTemplate>
</CreateLaunchTemplateResponse>

> Action=CreateLaunchTemplate&LaunchTemplateName=worker&LaunchTemplateData.ImageId=ami-1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidLaunchTemplateName.AlreadyExistsException</Code>
            <Message>Launch template name already in use.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000002</RequestID>
</Response>

> Action=DescribeLaunchTemplates&LaunchTemplateName.1=worker
200
<DescribeLaunchTemplatesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <launchTemplates>
        <item>
            <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
            <launchTemplateName>worker</launchTemplateName>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <createdBy>arn:aws:iam::000000000000:root</createdBy>
            <defaultVersionNumber>1</defaultVersionNumber>
            <latestVersionNumber>1</latestVersionNumber>
            <tagSet>
                <item>
                    <key>k</key>
                    <value>v</value>
                </item>
            </tagSet>
        </item>
    </launchTemplates>
</DescribeLaunchTemplatesResponse>

# The bid is too low in zone a, and zone c has room for two only.
> Action=CreateFleet&Type=instant&ClientToken=f1&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=worker
> &LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=%24Latest
> &LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone=us-west-1a&LaunchTemplateConfigs.1.Overrides.1.MaxPrice=0.01
> &LaunchTemplateConfigs.1.Overrides.2.AvailabilityZone=us-west-1c&LaunchTemplateConfigs.1.Overrides.2.MaxPrice=0.20
> &TargetCapacitySpecification.TotalTargetCapacity=3&TargetCapacitySpecification.DefaultTargetCapacityType=spot
> &SpotOptions.AllocationStrategy=price-capacity-optimized
> &TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=job&TagSpecification.1.Tag.1.Value=demo
200
<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <fleetId>fleet-1da0d28a-2ae7-dd8a-cb48-ff44f7871435</fleetId>
    <errorSet>
        <item>
            <launchTemplateAndOverrides>
                <launchTemplateSpecification>
                    <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
                    <version>1</version>
                </launchTemplateSpecification>
                <overrides>
                    <maxPrice>0.01</maxPrice>
                    <availabilityZone>us-west-1a</availabilityZone>
                </overrides>
            </launchTemplateAndOverrides>
            <lifecycle>spot</lifecycle>
            <errorCode>SpotMaxPriceTooLow</errorCode>
            <errorMessage>Your Spot request price of 0.01 is lower than the minimum required Spot request fulfillment price of 0.05.</errorMessage>
        </item>
        <item>
            <launchTemplateAndOverrides>
                <launchTemplateSpecification>
                    <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
                    <version>1</version>
                </launchTemplateSpecification>
                <overrides>
                    <maxPrice>0.2</maxPrice>
                    <availabilityZone>us-west-1c</availabilityZone>
                </overrides>
            </launchTemplateAndOverrides>
            <lifecycle>spot</lifecycle>
            <errorCode>InsufficientInstanceCapacity</errorCode>
            <errorMessage>We currently do not have sufficient c3.xlarge capacity in the Availability Zone you requested (us-west-1c).</errorMessage>
        </item>
    </errorSet>
    <fleetInstanceSet>
        <item>
            <launchTemplateAndOverrides>
                <launchTemplateSpecification>
                    <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
                    <version>1</version>
                </launchTemplateSpecification>
                <overrides>
                    <maxPrice>0.2</maxPrice>
                    <availabilityZone>us-west-1c</availabilityZone>
                </overrides>
            </launchTemplateAndOverrides>
            <lifecycle>spot</lifecycle>
            <instanceIds>
                <item>i-744d22802f05affaf</item>
                <item>i-cc81eb3bb639167f6</item>
            </instanceIds>
            <instanceType>c3.xlarge</instanceType>
        </item>
    </fleetInstanceSet>
</CreateFleetResponse>

> Action=DescribeInstances&InstanceId.1={i1}
200
<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000005</requestId>
    <reservationSet>
        <item>
            <reservationId>r-88ed6463047b37f29</reservationId>
            <ownerId>000000000000</ownerId>
            <groupSet></groupSet>
            <instancesSet>
                <item>
                    <instanceId>i-744d22802f05affaf</instanceId>
                    <imageId>ami-1</imageId>
                    <instanceState>
                        <code>0</code>
                        <name>pending</name>
                    </instanceState>
                    <privateDnsName>ip-172-31-32-4.us-west-1.compute.internal</privateDnsName>
                    <dnsName></dnsName>
                    <privateIpAddress>172.31.32.4</privateIpAddress>
                    <ipAddress>127.0.0.1</ipAddress>
                    <vpcId>vpc-d53106ac209bc96f4</vpcId>
                    <subnetId>subnet-87c923e4aee875bb8</subnetId>
                    <reason></reason>
                    <amiLaunchIndex>0</amiLaunchIndex>
                    <productCodes></productCodes>
                    <instanceType>c3.xlarge</instanceType>
                    <launchTime>2014-04-01T00:00:00.000Z</launchTime>
                    <placement>
                        <availabilityZone>us-west-1c</availabilityZone>
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
                    <spotInstanceRequestId>sir-x9d5gq3h</spotInstanceRequestId>
                    <clientToken></clientToken>
                    <tagSet>
                        <item>
                            <key>aws:ec2:fleet-id</key>
                            <value>fleet-1da0d28a-2ae7-dd8a-cb48-ff44f7871435</value>
                        </item>
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

> Action=RunInstances&LaunchTemplate.LaunchTemplateId={t1}&MinCount=1&MaxCount=1&InstanceType=m6g.large
200
<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000006</requestId>
    <reservationId>r-892e4de71b4740f7f</reservationId>
    <ownerId>000000000000</ownerId>
    <groupSet></groupSet>
    <instancesSet>
        <item>
            <instanceId>i-c70072df1850012e2</instanceId>
            <imageId>ami-1</imageId>
            <instanceState>
                <code>0</code>
                <name>pending</name>
            </instanceState>
            <privateDnsName>ip-172-31-0-6.us-west-1.compute.internal</privateDnsName>
            <dnsName></dnsName>
            <privateIpAddress>172.31.0.6</privateIpAddress>
            <ipAddress>127.0.0.3</ipAddress>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <subnetId>subnet-52093ebd783d07b9b</subnetId>
            <reason></reason>
            <amiLaunchIndex>0</amiLaunchIndex>
            <productCodes></productCodes>
            <instanceType>m6g.large</instanceType>
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
            <architecture>arm64</architecture>
            <rootDeviceType>ebs</rootDeviceType>
            <rootDeviceName>/dev/xvda</rootDeviceName>
            <blockDeviceMapping></blockDeviceMapping>
            <virtualizationType>hvm</virtualizationType>
            <clientToken></clientToken>
            <hypervisor>xen</hypervisor>
            <networkInterfaceSet></networkInterfaceSet>
            <ebsOptimized>false</ebsOptimized>
            <cpuOptions>
                <coreCount>2</coreCount>
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

> Action=DeleteLaunchTemplate&LaunchTemplateId={t1}
200
<DeleteLaunchTemplateResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000007</requestId>
    <launchTemplate>
        <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
        <launchTemplateName>worker</launchTemplateName>
        <createTime>2014-04-01T00:00:00.000Z</createTime>
        <createdBy>arn:aws:iam::000000000000:root</createdBy>
        <defaultVersionNumber>1</defaultVersionNumber>
        <latestVersionNumber>1</latestVersionNumber>
        <tagSet>
            <item>
                <key>k</key>
                <value>v</value>
            </item>
        </tagSet>
    </launchTemplate>
</DeleteLaunchTemplateResponse>

> Action=DescribeLaunchTemplates&LaunchTemplateName.1=worker
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidLaunchTemplateName.NotFoundException</Code>
            <Message>The specified launch template, with template name worker, does not exist.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000008</RequestID>
</Response>

> Action=CreateFleet&Type=maintain
400
<Response>
    <Errors>
        <Error>
            <Code>MissingParameter</Code>
            <Message>The request must contain the parameter LaunchTemplateConfigs</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000009</RequestID>
</Response>

