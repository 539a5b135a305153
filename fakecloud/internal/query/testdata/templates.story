> Action=CreateLaunchTemplate&LaunchTemplateName=worker&VersionDescription=first&LaunchTemplateData.ImageId=ami-1
> &LaunchTemplateData.InstanceType=c3.xlarge&LaunchTemplateData.UserData=aGk%3D
> &LaunchTemplateData.BlockDeviceMapping.1.DeviceName=%2Fdev%2Fsda1&LaunchTemplateData.BlockDeviceMapping.1.Ebs.VolumeSize=50
> &LaunchTemplateData.TagSpecification.1.ResourceType=instance&LaunchTemplateData.TagSpecification.1.Tag.1.Key=team&LaunchTemplateData.TagSpecification.1.Tag.1.Value=a
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
    </launchTemplate>
</CreateLaunchTemplateResponse>

# What a version does not say, it has from its source; without a source it has that alone.
> Action=CreateLaunchTemplateVersion&LaunchTemplateName=worker&SourceVersion=1&VersionDescription=arm&LaunchTemplateData.InstanceType=m6g.large
200
<CreateLaunchTemplateVersionResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <launchTemplateVersion>
        <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
        <launchTemplateName>worker</launchTemplateName>
        <versionNumber>2</versionNumber>
        <versionDescription>arm</versionDescription>
        <createTime>2014-04-01T00:00:00.000Z</createTime>
        <createdBy>arn:aws:iam::000000000000:root</createdBy>
        <defaultVersion>false</defaultVersion>
        <launchTemplateData>
            <blockDeviceMappingSet>
                <item>
                    <deviceName>/dev/sda1</deviceName>
                    <ebs>
                        <volumeSize>50</volumeSize>
                    </ebs>
                </item>
            </blockDeviceMappingSet>
            <imageId>ami-1</imageId>
            <instanceType>m6g.large</instanceType>
            <tagSpecificationSet>
                <item>
                    <resourceType>instance</resourceType>
                    <tagSet>
                        <item>
                            <key>team</key>
                            <value>a</value>
                        </item>
                    </tagSet>
                </item>
            </tagSpecificationSet>
            <userData>aGk=</userData>
        </launchTemplateData>
    </launchTemplateVersion>
</CreateLaunchTemplateVersionResponse>

> Action=CreateLaunchTemplateVersion&LaunchTemplateId={t1}&LaunchTemplateData.InstanceType=c3.xlarge
200
<CreateLaunchTemplateVersionResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <launchTemplateVersion>
        <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
        <launchTemplateName>worker</launchTemplateName>
        <versionNumber>3</versionNumber>
        <createTime>2014-04-01T00:00:00.000Z</createTime>
        <createdBy>arn:aws:iam::000000000000:root</createdBy>
        <defaultVersion>false</defaultVersion>
        <launchTemplateData>
            <instanceType>c3.xlarge</instanceType>
        </launchTemplateData>
    </launchTemplateVersion>
</CreateLaunchTemplateVersionResponse>

> Action=CreateLaunchTemplateVersion&LaunchTemplateId={t1}&SourceVersion=9&LaunchTemplateData.InstanceType=c3.xlarge
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidLaunchTemplateId.VersionNotFound</Code>
            <Message>Could not find the specified version 9 for the launch template with ID lt-44ffd670373170de4.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000004</RequestID>
</Response>

> Action=CreateLaunchTemplateVersion&LaunchTemplateId={t1}&LaunchTemplateData.InstanceKind=c3.xlarge
400
<Response>
    <Errors>
        <Error>
            <Code>UnknownParameter</Code>
            <Message>The parameter LaunchTemplateData.InstanceKind is not recognized</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000005</RequestID>
</Response>

> Action=DescribeLaunchTemplateVersions&LaunchTemplateName=worker&MaxVersion=2
200
<DescribeLaunchTemplateVersionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000006</requestId>
    <launchTemplateVersionSet>
        <item>
            <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
            <launchTemplateName>worker</launchTemplateName>
            <versionNumber>2</versionNumber>
            <versionDescription>arm</versionDescription>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <createdBy>arn:aws:iam::000000000000:root</createdBy>
            <defaultVersion>false</defaultVersion>
            <launchTemplateData>
                <blockDeviceMappingSet>
                    <item>
                        <deviceName>/dev/sda1</deviceName>
                        <ebs>
                            <volumeSize>50</volumeSize>
                        </ebs>
                    </item>
                </blockDeviceMappingSet>
                <imageId>ami-1</imageId>
                <instanceType>m6g.large</instanceType>
                <tagSpecificationSet>
                    <item>
                        <resourceType>instance</resourceType>
                        <tagSet>
                            <item>
                                <key>team</key>
                                <value>a</value>
                            </item>
                        </tagSet>
                    </item>
                </tagSpecificationSet>
                <userData>aGk=</userData>
            </launchTemplateData>
        </item>
        <item>
            <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
            <launchTemplateName>worker</launchTemplateName>
            <versionNumber>1</versionNumber>
            <versionDescription>first</versionDescription>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <createdBy>arn:aws:iam::000000000000:root</createdBy>
            <defaultVersion>true</defaultVersion>
            <launchTemplateData>
                <blockDeviceMappingSet>
                    <item>
                        <deviceName>/dev/sda1</deviceName>
                        <ebs>
                            <volumeSize>50</volumeSize>
                        </ebs>
                    </item>
                </blockDeviceMappingSet>
                <imageId>ami-1</imageId>
                <instanceType>c3.xlarge</instanceType>
                <tagSpecificationSet>
                    <item>
                        <resourceType>instance</resourceType>
                        <tagSet>
                            <item>
                                <key>team</key>
                                <value>a</value>
                            </item>
                        </tagSet>
                    </item>
                </tagSpecificationSet>
                <userData>aGk=</userData>
            </launchTemplateData>
        </item>
    </launchTemplateVersionSet>
</DescribeLaunchTemplateVersionsResponse>

> Action=ModifyLaunchTemplate&LaunchTemplateName=worker&SetDefaultVersion=2
200
<ModifyLaunchTemplateResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000007</requestId>
    <launchTemplate>
        <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
        <launchTemplateName>worker</launchTemplateName>
        <createTime>2014-04-01T00:00:00.000Z</createTime>
        <createdBy>arn:aws:iam::000000000000:root</createdBy>
        <defaultVersionNumber>2</defaultVersionNumber>
        <latestVersionNumber>3</latestVersionNumber>
    </launchTemplate>
</ModifyLaunchTemplateResponse>

# Its image is missing.
> Action=RunInstances&LaunchTemplate.LaunchTemplateName=worker&LaunchTemplate.Version=%24Latest&MinCount=1&MaxCount=1
400
<Response>
    <Errors>
        <Error>
            <Code>MissingParameter</Code>
            <Message>The request must contain the parameter ImageId</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000008</RequestID>
</Response>

> Action=RunInstances&LaunchTemplate.LaunchTemplateName=worker&LaunchTemplate.Version=7&MinCount=1&MaxCount=1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidLaunchTemplateId.VersionNotFound</Code>
            <Message>Could not find the specified version 7 for the launch template with ID lt-44ffd670373170de4.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000009</RequestID>
</Response>

> Action=RunInstances&LaunchTemplate.LaunchTemplateName=worker&LaunchTemplate.Version=1&MinCount=1&MaxCount=1&SecurityGroup.1=default
200
<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000a</requestId>
    <reservationId>r-1da0d28a326013512</reservationId>
    <ownerId>000000000000</ownerId>
    <groupSet></groupSet>
    <instancesSet>
        <item>
            <instanceId>i-dd8a70c6660ff8bec</instanceId>
            <imageId>ami-1</imageId>
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
                        <volumeId>vol-dd8a70c6660ff8bec</volumeId>
                        <status>attached</status>
                        <attachTime>2014-04-01T00:00:00.000Z</attachTime>
                        <deleteOnTermination>true</deleteOnTermination>
                    </ebs>
                </item>
            </blockDeviceMapping>
            <virtualizationType>hvm</virtualizationType>
            <clientToken></clientToken>
            <tagSet>
                <item>
                    <key>team</key>
                    <value>a</value>
                </item>
            </tagSet>
            <hypervisor>xen</hypervisor>
            <networkInterfaceSet>
                <item>
                    <networkInterfaceId>eni-dd8a70c6660ff8bec</networkInterfaceId>
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
                        <attachmentId>eni-attach-dd8a70c6660ff8bec</attachmentId>
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

> Action=GetLaunchTemplateData&InstanceId={i1}
200
<GetLaunchTemplateDataResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000b</requestId>
    <launchTemplateData>
        <disableApiTermination>false</disableApiTermination>
        <ebsOptimized>false</ebsOptimized>
        <hibernationOptions>
            <configured>false</configured>
        </hibernationOptions>
        <imageId>ami-1</imageId>
        <instanceType>c3.xlarge</instanceType>
        <metadataOptions>
            <httpEndpoint>enabled</httpEndpoint>
            <httpTokens>required</httpTokens>
        </metadataOptions>
        <monitoring>
            <enabled>false</enabled>
        </monitoring>
        <networkInterfaceSet>
            <item>
                <deviceIndex>0</deviceIndex>
                <groupSet>
                    <groupId>sg-cee7fd4c2282bddc6</groupId>
                </groupSet>
                <subnetId>subnet-52093ebd783d07b9b</subnetId>
            </item>
        </networkInterfaceSet>
        <placement>
            <availabilityZone>us-west-1a</availabilityZone>
            <tenancy>default</tenancy>
        </placement>
        <tagSpecificationSet>
            <item>
                <resourceType>instance</resourceType>
                <tagSet>
                    <item>
                        <key>team</key>
                        <value>a</value>
                    </item>
                </tagSet>
            </item>
        </tagSpecificationSet>
        <userData>aGk=</userData>
    </launchTemplateData>
</GetLaunchTemplateDataResponse>

# The second version is the default.
> Action=DeleteLaunchTemplateVersions&LaunchTemplateName=worker&LaunchTemplateVersion.1=3&LaunchTemplateVersion.2=2&LaunchTemplateVersion.3=8
200
<DeleteLaunchTemplateVersionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000c</requestId>
    <successfullyDeletedLaunchTemplateVersionSet>
        <item>
            <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
            <launchTemplateName>worker</launchTemplateName>
            <versionNumber>3</versionNumber>
        </item>
    </successfullyDeletedLaunchTemplateVersionSet>
    <unsuccessfullyDeletedLaunchTemplateVersionSet>
        <item>
            <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
            <launchTemplateName>worker</launchTemplateName>
            <versionNumber>2</versionNumber>
            <responseError>
                <code>unexpectedError</code>
                <message>The default version of a launch template cannot be deleted.</message>
            </responseError>
        </item>
        <item>
            <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
            <launchTemplateName>worker</launchTemplateName>
            <versionNumber>8</versionNumber>
            <responseError>
                <code>launchTemplateVersionDoesNotExist</code>
                <message>Could not find the specified version 8 for the launch template with ID lt-44ffd670373170de4.</message>
            </responseError>
        </item>
    </unsuccessfullyDeletedLaunchTemplateVersionSet>
</DeleteLaunchTemplateVersionsResponse>

> Action=DescribeLaunchTemplateVersions&LaunchTemplateVersion.1=%24Latest&Filter.1.Name=is-default-version&Filter.1.Value.1=true
200
<DescribeLaunchTemplateVersionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000d</requestId>
    <launchTemplateVersionSet>
        <item>
            <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
            <launchTemplateName>worker</launchTemplateName>
            <versionNumber>2</versionNumber>
            <versionDescription>arm</versionDescription>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <createdBy>arn:aws:iam::000000000000:root</createdBy>
            <defaultVersion>true</defaultVersion>
            <launchTemplateData>
                <blockDeviceMappingSet>
                    <item>
                        <deviceName>/dev/sda1</deviceName>
                        <ebs>
                            <volumeSize>50</volumeSize>
                        </ebs>
                    </item>
                </blockDeviceMappingSet>
                <imageId>ami-1</imageId>
                <instanceType>m6g.large</instanceType>
                <tagSpecificationSet>
                    <item>
                        <resourceType>instance</resourceType>
                        <tagSet>
                            <item>
                                <key>team</key>
                                <value>a</value>
                            </item>
                        </tagSet>
                    </item>
                </tagSpecificationSet>
                <userData>aGk=</userData>
            </launchTemplateData>
        </item>
    </launchTemplateVersionSet>
</DescribeLaunchTemplateVersionsResponse>

> Action=DescribeLaunchTemplateVersions
400
<Response>
    <Errors>
        <Error>
            <Code>MissingParameter</Code>
            <Message>Without a launch template, versions must be $Latest or $Default.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000e</RequestID>
</Response>

# Of three units, two are within the price; the number of a deleted version does not return.
> Action=CreateLaunchTemplateVersion&LaunchTemplateName=worker&SourceVersion=1&LaunchTemplateData.KeyName=
200
<CreateLaunchTemplateVersionResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000f</requestId>
    <launchTemplateVersion>
        <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
        <launchTemplateName>worker</launchTemplateName>
        <versionNumber>4</versionNumber>
        <createTime>2014-04-01T00:00:00.000Z</createTime>
        <createdBy>arn:aws:iam::000000000000:root</createdBy>
        <defaultVersion>false</defaultVersion>
        <launchTemplateData>
            <blockDeviceMappingSet>
                <item>
                    <deviceName>/dev/sda1</deviceName>
                    <ebs>
                        <volumeSize>50</volumeSize>
                    </ebs>
                </item>
            </blockDeviceMappingSet>
            <imageId>ami-1</imageId>
            <instanceType>c3.xlarge</instanceType>
            <keyName></keyName>
            <tagSpecificationSet>
                <item>
                    <resourceType>instance</resourceType>
                    <tagSet>
                        <item>
                            <key>team</key>
                            <value>a</value>
                        </item>
                    </tagSet>
                </item>
            </tagSpecificationSet>
            <userData>aGk=</userData>
        </launchTemplateData>
    </launchTemplateVersion>
</CreateLaunchTemplateVersionResponse>

> Action=CreateFleet&Type=maintain&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=worker
> &LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1&TargetCapacitySpecification.TotalTargetCapacity=3
> &TargetCapacitySpecification.DefaultTargetCapacityType=spot&SpotOptions.MaxTotalPrice=0.11
> &SpotOptions.MaintenanceStrategies.CapacityRebalance.ReplacementStrategy=launch
200
<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000010</requestId>
    <fleetId>fleet-ff44f787-88ed-9cfb-744d-f12901e688ef</fleetId>
    <errorSet></errorSet>
    <fleetInstanceSet></fleetInstanceSet>
</CreateFleetResponse>

> Action=DescribeFleets
200
<DescribeFleetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000011</requestId>
    <fleetSet>
        <item>
            <fleetId>fleet-ff44f787-88ed-9cfb-744d-f12901e688ef</fleetId>
            <fleetState>active</fleetState>
            <activityStatus>pending_fulfillment</activityStatus>
            <type>maintain</type>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <fulfilledCapacity>2</fulfilledCapacity>
            <fulfilledOnDemandCapacity>0</fulfilledOnDemandCapacity>
            <targetCapacitySpecification>
                <totalTargetCapacity>3</totalTargetCapacity>
                <onDemandTargetCapacity>0</onDemandTargetCapacity>
                <spotTargetCapacity>3</spotTargetCapacity>
                <defaultTargetCapacityType>spot</defaultTargetCapacityType>
            </targetCapacitySpecification>
            <excessCapacityTerminationPolicy>termination</excessCapacityTerminationPolicy>
            <replaceUnhealthyInstances>false</replaceUnhealthyInstances>
            <terminateInstancesWithExpiration>false</terminateInstancesWithExpiration>
            <spotOptions>
                <allocationStrategy>lowest-price</allocationStrategy>
                <instanceInterruptionBehavior>terminate</instanceInterruptionBehavior>
                <maxTotalPrice>0.11</maxTotalPrice>
                <maintenanceStrategies>
                    <capacityRebalance>
                        <replacementStrategy>launch</replacementStrategy>
                    </capacityRebalance>
                </maintenanceStrategies>
            </spotOptions>
            <onDemandOptions>
                <allocationStrategy>lowest-price</allocationStrategy>
            </onDemandOptions>
            <launchTemplateConfigs>
                <item>
                    <launchTemplateSpecification>
                        <launchTemplateId>lt-44ffd670373170de4</launchTemplateId>
                        <launchTemplateName>worker</launchTemplateName>
                        <version>1</version>
                    </launchTemplateSpecification>
                    <overrides></overrides>
                </item>
            </launchTemplateConfigs>
            <errorSet></errorSet>
        </item>
    </fleetSet>
</DescribeFleetsResponse>

> Action=CreateFleet&Type=instant&LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=worker
> &TargetCapacitySpecification.TotalTargetCapacity=1&SpotOptions.MaintenanceStrategies.CapacityRebalance.ReplacementStrategy=launch
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterCombination</Code>
            <Message>Capacity rebalancing is for fleets of type maintain.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000012</RequestID>
</Response>

# The price rises at minute 30.
@ +40m
> Action=DescribeFleetHistory&FleetId={f1}&StartTime=2014-04-01T00:00:00Z
200
<DescribeFleetHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000013</requestId>
    <historyRecordSet>
        <item>
            <eventInformation>
                <eventSubType>submitted</eventSubType>
            </eventInformation>
            <eventType>fleet-change</eventType>
            <timestamp>2014-04-01T00:00:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventSubType>active</eventSubType>
            </eventInformation>
            <eventType>fleet-change</eventType>
            <timestamp>2014-04-01T00:00:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventDescription>{&#34;availabilityZone&#34;:&#34;us-west-1a&#34;,&#34;image&#34;:&#34;ami-1&#34;,&#34;instanceType&#34;:&#34;c3.xlarge&#34;,&#34;productDescription&#34;:&#34;Linux/UNIX&#34;}</eventDescription>
                <eventSubType>launched</eventSubType>
                <instanceId>i-a99a5f8a24413923b</instanceId>
            </eventInformation>
            <eventType>instance-change</eventType>
            <timestamp>2014-04-01T00:00:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventDescription>{&#34;availabilityZone&#34;:&#34;us-west-1a&#34;,&#34;image&#34;:&#34;ami-1&#34;,&#34;instanceType&#34;:&#34;c3.xlarge&#34;,&#34;productDescription&#34;:&#34;Linux/UNIX&#34;}</eventDescription>
                <eventSubType>launched</eventSubType>
                <instanceId>i-c66cf79676f121dde</instanceId>
            </eventInformation>
            <eventType>instance-change</eventType>
            <timestamp>2014-04-01T00:00:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventDescription>{&#34;availabilityZone&#34;:&#34;us-west-1a&#34;,&#34;image&#34;:&#34;ami-1&#34;,&#34;instanceType&#34;:&#34;c3.xlarge&#34;,&#34;productDescription&#34;:&#34;Linux/UNIX&#34;}</eventDescription>
                <eventSubType>terminated</eventSubType>
                <instanceId>i-a99a5f8a24413923b</instanceId>
            </eventInformation>
            <eventType>instance-change</eventType>
            <timestamp>2014-04-01T00:32:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventDescription>{&#34;availabilityZone&#34;:&#34;us-west-1a&#34;,&#34;image&#34;:&#34;ami-1&#34;,&#34;instanceType&#34;:&#34;c3.xlarge&#34;,&#34;productDescription&#34;:&#34;Linux/UNIX&#34;}</eventDescription>
                <eventSubType>terminated</eventSubType>
                <instanceId>i-c66cf79676f121dde</instanceId>
            </eventInformation>
            <eventType>instance-change</eventType>
            <timestamp>2014-04-01T00:32:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventDescription>{&#34;availabilityZone&#34;:&#34;us-west-1c&#34;,&#34;image&#34;:&#34;ami-1&#34;,&#34;instanceType&#34;:&#34;c3.xlarge&#34;,&#34;productDescription&#34;:&#34;Linux/UNIX&#34;}</eventDescription>
                <eventSubType>launched</eventSubType>
                <instanceId>i-751fe1f09e15a04d2</instanceId>
            </eventInformation>
            <eventType>instance-change</eventType>
            <timestamp>2014-04-01T00:32:00.000Z</timestamp>
        </item>
    </historyRecordSet>
    <lastEvaluatedTime>2014-04-01T00:40:00.000Z</lastEvaluatedTime>
    <fleetId>fleet-ff44f787-88ed-9cfb-744d-f12901e688ef</fleetId>
    <startTime>2014-04-01T00:00:00.000Z</startTime>
</DescribeFleetHistoryResponse>

> Action=DescribeFleetHistory&FleetId={f1}&StartTime=2014-04-01T00:00:00Z&EventType=service-error
200
<DescribeFleetHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000014</requestId>
    <historyRecordSet></historyRecordSet>
    <lastEvaluatedTime>2014-04-01T00:40:00.000Z</lastEvaluatedTime>
    <fleetId>fleet-ff44f787-88ed-9cfb-744d-f12901e688ef</fleetId>
    <startTime>2014-04-01T00:00:00.000Z</startTime>
</DescribeFleetHistoryResponse>

> Action=DescribeFleetHistory&FleetId={f1}&StartTime=2014-04-01T00:00:00Z&EventType=error
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value (error) for parameter EventType is invalid.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000015</RequestID>
</Response>

> Action=GetSpotPlacementScores&InstanceType.1=c3.xlarge&TargetCapacity=20
200
<GetSpotPlacementScoresResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000016</requestId>
    <spotPlacementScoreSet>
        <item>
            <region>us-west-1</region>
            <score>3</score>
        </item>
    </spotPlacementScoreSet>
</GetSpotPlacementScoresResponse>

