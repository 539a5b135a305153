# Addresses and volumes are records.
> Action=RunInstances&ImageId=ami-12345678&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&Placement.AvailabilityZone=us-west-1a
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

> Action=AllocateAddress&Domain=vpc&TagSpecification.1.ResourceType=elastic-ip&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v
200
<AllocateAddressResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <publicIp>127.255.0.1</publicIp>
    <allocationId>eipalloc-dd8a70c6660ff8bec</allocationId>
    <domain>vpc</domain>
    <publicIpv4Pool>amazon</publicIpv4Pool>
    <networkBorderGroup>us-west-1</networkBorderGroup>
    <tagSet>
        <item>
            <key>k</key>
            <value>v</value>
        </item>
    </tagSet>
</AllocateAddressResponse>

> Action=AssociateAddress&PublicIp=127.255.0.1&InstanceId={i1}
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceID</Code>
            <Message>The pending instance &#39;i-1da0d28a326013512&#39; is not in a valid state for this operation</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000003</RequestID>
</Response>

@ +1m
> Action=AssociateAddress&PublicIp=127.255.0.1&InstanceId={i1}
200
<AssociateAddressResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <return>true</return>
    <associationId>eipassoc-1da0d28a326013512</associationId>
</AssociateAddressResponse>

> Action=AssociateAddress&PublicIp=127.255.0.9&InstanceId={i1}
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidAddress.NotFound</Code>
            <Message>Address &#39;127.255.0.9&#39; not found.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000005</RequestID>
</Response>

> Action=DescribeAddresses&Filter.1.Name=instance-id&Filter.1.Value.1={i1}
200
<DescribeAddressesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000006</requestId>
    <addressesSet>
        <item>
            <publicIp>127.255.0.1</publicIp>
            <allocationId>eipalloc-dd8a70c6660ff8bec</allocationId>
            <associationId>eipassoc-1da0d28a326013512</associationId>
            <domain>vpc</domain>
            <instanceId>i-1da0d28a326013512</instanceId>
            <networkInterfaceId>eni-1da0d28a326013512</networkInterfaceId>
            <networkInterfaceOwnerId>000000000000</networkInterfaceOwnerId>
            <privateIpAddress>172.31.0.4</privateIpAddress>
            <publicIpv4Pool>amazon</publicIpv4Pool>
            <networkBorderGroup>us-west-1</networkBorderGroup>
            <tagSet>
                <item>
                    <key>k</key>
                    <value>v</value>
                </item>
            </tagSet>
        </item>
    </addressesSet>
</DescribeAddressesResponse>

> Action=DescribeNetworkInterfaces&Filter.1.Name=attachment.instance-id&Filter.1.Value.1={i1}
200
<DescribeNetworkInterfacesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000007</requestId>
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
                <publicIp>127.255.0.1</publicIp>
                <ipOwnerId>000000000000</ipOwnerId>
            </association>
            <privateIpAddressesSet>
                <item>
                    <privateIpAddress>172.31.0.4</privateIpAddress>
                    <privateDnsName>ip-172-31-0-4.us-west-1.compute.internal</privateDnsName>
                    <primary>true</primary>
                    <association>
                        <publicIp>127.255.0.1</publicIp>
                        <ipOwnerId>000000000000</ipOwnerId>
                    </association>
                </item>
            </privateIpAddressesSet>
            <availabilityZone>us-west-1a</availabilityZone>
        </item>
    </networkInterfaceSet>
</DescribeNetworkInterfacesResponse>

> Action=ReleaseAddress&PublicIp=127.255.0.1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidIPAddress.InUse</Code>
            <Message>Address 127.255.0.1 is in use by i-1da0d28a326013512.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000008</RequestID>
</Response>

> Action=DisassociateAddress&PublicIp=127.255.0.1
200
<DisassociateAddressResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000009</requestId>
    <return>true</return>
</DisassociateAddressResponse>

> Action=DisassociateAddress&AssociationId=eipassoc-1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidAssociationID.NotFound</Code>
            <Message>The association ID &#39;eipassoc-1&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000a</RequestID>
</Response>

> Action=ReleaseAddress&PublicIp=127.255.0.1
200
<ReleaseAddressResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000b</requestId>
    <return>true</return>
</ReleaseAddressResponse>

> Action=DescribeAddresses
200
<DescribeAddressesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000c</requestId>
    <addressesSet></addressesSet>
</DescribeAddressesResponse>

> Action=CreateVolume&AvailabilityZone=us-west-1a&Size=10&VolumeType=gp3&ClientToken=a&TagSpecification.1.ResourceType=volume&TagSpecification.1.Tag.1.Key=k&TagSpecification.1.Tag.1.Value=v
200
<CreateVolumeResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000d</requestId>
    <volumeId>vol-ff44f787143510db8</volumeId>
    <size>10</size>
    <availabilityZone>us-west-1a</availabilityZone>
    <status>available</status>
    <createTime>2014-04-01T00:01:00.000Z</createTime>
    <volumeType>gp3</volumeType>
    <attachmentSet></attachmentSet>
    <encrypted>false</encrypted>
    <tagSet>
        <item>
            <key>k</key>
            <value>v</value>
        </item>
    </tagSet>
</CreateVolumeResponse>

> Action=CreateVolume&AvailabilityZone=us-west-1a&Size=11&ClientToken=a
400
<Response>
    <Errors>
        <Error>
            <Code>IdempotentParameterMismatch</Code>
            <Message>The client token has been used with other parameters.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000e</RequestID>
</Response>

> Action=CreateVolume&AvailabilityZone=us-west-1x&Size=11
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidZone.NotFound</Code>
            <Message>The zone &#39;us-west-1x&#39; does not exist.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000f</RequestID>
</Response>

> Action=CreateVolume&AvailabilityZone=us-west-1a&SnapshotId=snap-1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidSnapshot.NotFound</Code>
            <Message>The snapshot &#39;snap-1&#39; does not exist.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000010</RequestID>
</Response>

> Action=DescribeVolumes&Filter.1.Name=tag:k&Filter.1.Value.1=v
200
<DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000011</requestId>
    <volumeSet>
        <item>
            <volumeId>vol-ff44f787143510db8</volumeId>
            <size>10</size>
            <availabilityZone>us-west-1a</availabilityZone>
            <status>available</status>
            <createTime>2014-04-01T00:01:00.000Z</createTime>
            <volumeType>gp3</volumeType>
            <attachmentSet></attachmentSet>
            <encrypted>false</encrypted>
            <tagSet>
                <item>
                    <key>k</key>
                    <value>v</value>
                </item>
            </tagSet>
        </item>
    </volumeSet>
</DescribeVolumesResponse>

> Action=DescribeNetworkAcls&Filter.1.Name=default&Filter.1.Value.1=true
200
<DescribeNetworkAclsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000012</requestId>
    <networkAclSet>
        <item>
            <networkAclId>acl-d53106ac209bc96f4</networkAclId>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <ownerId>000000000000</ownerId>
            <default>true</default>
            <entrySet>
                <item>
                    <ruleNumber>100</ruleNumber>
                    <protocol>-1</protocol>
                    <ruleAction>allow</ruleAction>
                    <egress>true</egress>
                    <cidrBlock>0.0.0.0/0</cidrBlock>
                </item>
                <item>
                    <ruleNumber>32767</ruleNumber>
                    <protocol>-1</protocol>
                    <ruleAction>deny</ruleAction>
                    <egress>true</egress>
                    <cidrBlock>0.0.0.0/0</cidrBlock>
                </item>
                <item>
                    <ruleNumber>100</ruleNumber>
                    <protocol>-1</protocol>
                    <ruleAction>allow</ruleAction>
                    <egress>false</egress>
                    <cidrBlock>0.0.0.0/0</cidrBlock>
                </item>
                <item>
                    <ruleNumber>32767</ruleNumber>
                    <protocol>-1</protocol>
                    <ruleAction>deny</ruleAction>
                    <egress>false</egress>
                    <cidrBlock>0.0.0.0/0</cidrBlock>
                </item>
            </entrySet>
            <associationSet>
                <item>
                    <networkAclAssociationId>aclassoc-52093ebd783d07b9b</networkAclAssociationId>
                    <networkAclId>acl-d53106ac209bc96f4</networkAclId>
                    <subnetId>subnet-52093ebd783d07b9b</subnetId>
                </item>
                <item>
                    <networkAclAssociationId>aclassoc-87c923e4aee875bb8</networkAclAssociationId>
                    <networkAclId>acl-d53106ac209bc96f4</networkAclId>
                    <subnetId>subnet-87c923e4aee875bb8</subnetId>
                </item>
            </associationSet>
        </item>
    </networkAclSet>
</DescribeNetworkAclsResponse>

