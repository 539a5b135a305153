# What a new account has.
> Action=DescribeVpcs
200
<DescribeVpcsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000001</requestId>
    <vpcSet>
        <item>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <ownerId>000000000000</ownerId>
            <state>available</state>
            <cidrBlock>172.31.0.0/16</cidrBlock>
            <dhcpOptionsId>default</dhcpOptionsId>
            <instanceTenancy>default</instanceTenancy>
            <isDefault>true</isDefault>
            <cidrBlockAssociationSet>
                <item>
                    <associationId>vpc-cidr-assoc-d53106ac209bc96f4</associationId>
                    <cidrBlock>172.31.0.0/16</cidrBlock>
                    <cidrBlockState>
                        <state>associated</state>
                    </cidrBlockState>
                </item>
            </cidrBlockAssociationSet>
        </item>
    </vpcSet>
</DescribeVpcsResponse>

> Action=DescribeSubnets&Filter.1.Name=availability-zone&Filter.1.Value.1=us-west-1c
200
<DescribeSubnetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <subnetSet>
        <item>
            <subnetId>subnet-87c923e4aee875bb8</subnetId>
            <subnetArn>arn:aws:ec2:us-west-1:000000000000:subnet/subnet-87c923e4aee875bb8</subnetArn>
            <state>available</state>
            <ownerId>000000000000</ownerId>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <cidrBlock>172.31.32.0/20</cidrBlock>
            <availableIpAddressCount>4091</availableIpAddressCount>
            <availabilityZone>us-west-1c</availabilityZone>
            <availabilityZoneId>usw1-az2</availabilityZoneId>
            <defaultForAz>true</defaultForAz>
            <mapPublicIpOnLaunch>true</mapPublicIpOnLaunch>
            <assignIpv6AddressOnCreation>false</assignIpv6AddressOnCreation>
            <ipv6CidrBlockAssociationSet></ipv6CidrBlockAssociationSet>
        </item>
    </subnetSet>
</DescribeSubnetsResponse>

> Action=DescribeSecurityGroups&GroupName.1=default
200
<DescribeSecurityGroupsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <securityGroupInfo>
        <item>
            <groupId>sg-cee7fd4c2282bddc6</groupId>
            <securityGroupArn>arn:aws:ec2:us-west-1:000000000000:security-group/sg-cee7fd4c2282bddc6</securityGroupArn>
            <groupName>default</groupName>
            <groupDescription>default VPC security group</groupDescription>
            <ownerId>000000000000</ownerId>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <ipPermissions>
                <item>
                    <ipProtocol>-1</ipProtocol>
                    <groups>
                        <item>
                            <userId>000000000000</userId>
                            <groupId>sg-cee7fd4c2282bddc6</groupId>
                        </item>
                    </groups>
                    <ipRanges></ipRanges>
                    <ipv6Ranges></ipv6Ranges>
                    <prefixListIds></prefixListIds>
                </item>
            </ipPermissions>
            <ipPermissionsEgress>
                <item>
                    <ipProtocol>-1</ipProtocol>
                    <groups></groups>
                    <ipRanges>
                        <item>
                            <cidrIp>0.0.0.0/0</cidrIp>
                        </item>
                    </ipRanges>
                    <ipv6Ranges></ipv6Ranges>
                    <prefixListIds></prefixListIds>
                </item>
            </ipPermissionsEgress>
        </item>
    </securityGroupInfo>
</DescribeSecurityGroupsResponse>

> Action=DescribeImages&Owner.1=amazon&Filter.1.Name=architecture&Filter.1.Value.1=arm*
200
<DescribeImagesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <imagesSet>
        <item>
            <imageId>ami-ee436fc220daf3c3d</imageId>
            <imageLocation>amazon/fakecloud-linux-arm64</imageLocation>
            <imageState>available</imageState>
            <imageOwnerId>137112412989</imageOwnerId>
            <imageOwnerAlias>amazon</imageOwnerAlias>
            <creationDate>2014-01-01T00:00:00.000Z</creationDate>
            <isPublic>true</isPublic>
            <architecture>arm64</architecture>
            <imageType>machine</imageType>
            <name>fakecloud-linux-arm64</name>
            <description>Every image runs the same command here</description>
            <rootDeviceType>ebs</rootDeviceType>
            <rootDeviceName>/dev/xvda</rootDeviceName>
            <blockDeviceMapping>
                <item>
                    <deviceName>/dev/xvda</deviceName>
                    <ebs>
                        <volumeSize>8</volumeSize>
                        <volumeType>gp2</volumeType>
                        <deleteOnTermination>true</deleteOnTermination>
                        <snapshotId>snap-ee436fc220daf3c3d</snapshotId>
                        <encrypted>false</encrypted>
                    </ebs>
                </item>
            </blockDeviceMapping>
            <virtualizationType>hvm</virtualizationType>
            <hypervisor>xen</hypervisor>
            <enaSupport>true</enaSupport>
            <platformDetails>Linux/UNIX</platformDetails>
            <usageOperation>RunInstances</usageOperation>
        </item>
    </imagesSet>
</DescribeImagesResponse>

> Action=DescribeRouteTables&Filter.1.Name=association.main&Filter.1.Value.1=true
200
<DescribeRouteTablesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000005</requestId>
    <routeTableSet>
        <item>
            <routeTableId>rtb-0c94614daa828f9d5</routeTableId>
            <vpcId>vpc-d53106ac209bc96f4</vpcId>
            <ownerId>000000000000</ownerId>
            <routeSet>
                <item>
                    <destinationCidrBlock>172.31.0.0/16</destinationCidrBlock>
                    <gatewayId>local</gatewayId>
                    <state>active</state>
                    <origin>CreateRouteTable</origin>
                </item>
                <item>
                    <destinationCidrBlock>0.0.0.0/0</destinationCidrBlock>
                    <gatewayId>igw-02170d0d13a66876f</gatewayId>
                    <state>active</state>
                    <origin>CreateRoute</origin>
                </item>
            </routeSet>
            <associationSet>
                <item>
                    <routeTableAssociationId>rtbassoc-0c94614daa828f9d5</routeTableAssociationId>
                    <routeTableId>rtb-0c94614daa828f9d5</routeTableId>
                    <main>true</main>
                    <associationState>
                        <state>associated</state>
                    </associationState>
                </item>
            </associationSet>
        </item>
    </routeTableSet>
</DescribeRouteTablesResponse>

> Action=DescribeInternetGateways&MaxResults=5
200
<DescribeInternetGatewaysResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000006</requestId>
    <internetGatewaySet>
        <item>
            <internetGatewayId>igw-02170d0d13a66876f</internetGatewayId>
            <ownerId>000000000000</ownerId>
            <attachmentSet>
                <item>
                    <vpcId>vpc-d53106ac209bc96f4</vpcId>
                    <state>available</state>
                </item>
            </attachmentSet>
        </item>
    </internetGatewaySet>
</DescribeInternetGatewaysResponse>

> Action=DescribeInstanceTypeOfferings&LocationType=availability-zone-id&Filter.1.Name=instance-type&Filter.1.Value.1=m6g.large
200
<DescribeInstanceTypeOfferingsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000007</requestId>
    <instanceTypeOfferingSet>
        <item>
            <instanceType>m6g.large</instanceType>
            <locationType>availability-zone-id</locationType>
            <location>usw1-az1</location>
        </item>
        <item>
            <instanceType>m6g.large</instanceType>
            <locationType>availability-zone-id</locationType>
            <location>usw1-az2</location>
        </item>
    </instanceTypeOfferingSet>
</DescribeInstanceTypeOfferingsResponse>

> Action=DescribeAccountAttributes
200
<DescribeAccountAttributesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000008</requestId>
    <accountAttributeSet>
        <item>
            <attributeName>supported-platforms</attributeName>
            <attributeValueSet>
                <item>
                    <attributeValue>VPC</attributeValue>
                </item>
            </attributeValueSet>
        </item>
        <item>
            <attributeName>default-vpc</attributeName>
            <attributeValueSet>
                <item>
                    <attributeValue>vpc-d53106ac209bc96f4</attributeValue>
                </item>
            </attributeValueSet>
        </item>
    </accountAttributeSet>
</DescribeAccountAttributesResponse>

> Action=GetCallerIdentity&Version=2011-06-15
200
<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
    <GetCallerIdentityResult>
        <Arn>arn:aws:iam::000000000000:root</Arn>
        <UserId>000000000000</UserId>
        <Account>000000000000</Account>
    </GetCallerIdentityResult>
    <ResponseMetadata>
        <RequestId>00000000-0000-4000-8000-000000000009</RequestId>
    </ResponseMetadata>
</GetCallerIdentityResponse>

# Refusals.
> Action=DescribeVpcs&VpcId.1=vpc-0123456789abcdef0
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidVpcID.NotFound</Code>
            <Message>The vpc ID &#39;vpc-0123456789abcdef0&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000a</RequestID>
</Response>

> Action=DescribeVpcs&Filter.1.Name=colour&Filter.1.Value.1=red
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>The filter &#39;colour&#39; is invalid</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000b</RequestID>
</Response>

> Action=DescribeVpcs&Colour=red
400
<Response>
    <Errors>
        <Error>
            <Code>UnknownParameter</Code>
            <Message>The parameter Colour is not recognized</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000c</RequestID>
</Response>

> Action=DescribeSubnets&MaxResults=1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value ( 1 ) for parameter maxResults is invalid. Expecting a value between 5 and 1000.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000d</RequestID>
</Response>

> Action=DescribeImages&DryRun=true
412
<Response>
    <Errors>
        <Error>
            <Code>DryRunOperation</Code>
            <Message>Request would have succeeded, but DryRun flag is set.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000e</RequestID>
</Response>

> Action=DeleteSecurityGroup&GroupName=default
400
<Response>
    <Errors>
        <Error>
            <Code>CannotDelete</Code>
            <Message>the specified group: &#34;sg-cee7fd4c2282bddc6&#34; name: &#34;default&#34; cannot be deleted by a user</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000f</RequestID>
</Response>

> Action=AuthorizeSecurityGroupIngress&GroupName=default&IpPermissions.1.IpProtocol=tcp&IpPermissions.1.FromPort=22&IpPermissions.1.ToPort=22&IpPermissions.1.IpRanges.1.CidrIp=everywhere
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>CIDR block everywhere is malformed</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000010</RequestID>
</Response>

> Action=DescribeInstanceTypeOfferings&LocationType=planet
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value (planet) for parameter LocationType is invalid.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000011</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&SubnetId=subnet-0123456789abcdef0
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidSubnetID.NotFound</Code>
            <Message>The subnet ID &#39;subnet-0123456789abcdef0&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000012</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&SecurityGroupId.1=sg-1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidGroup.NotFound</Code>
            <Message>The security group &#39;sg-1&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000013</RequestID>
</Response>

> Action=CreateFleet&Type=eternal
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value (eternal) for parameter Type is invalid.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000014</RequestID>
</Response>

> Action=StopInstances
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterCombination</Code>
            <Message>No instances specified</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000015</RequestID>
</Response>

> Action=AssumeRole&Version=2011-06-15
400
<Response>
    <Errors>
        <Error>
            <Code>MissingParameter</Code>
            <Message>The request must contain the parameter RoleArn</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000016</RequestID>
</Response>

