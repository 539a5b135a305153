# Ids that nothing has, by the dozen.
> Action=TerminateInstances&InstanceId.1=i-12345678&InstanceId.2=i-87654321
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceID.NotFound</Code>
            <Message>The instance IDs &#39;i-12345678, i-87654321&#39; do not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000001</RequestID>
</Response>

> Action=DescribeImages&ImageId.1=foo
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidAMIID.Malformed</Code>
            <Message>Invalid id: &#34;foo&#34; (expecting &#34;ami-...&#34;)</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000002</RequestID>
</Response>

> Action=DescribeImages&ImageId.1=ami-12345678
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidAMIID.NotFound</Code>
            <Message>The image id &#39;[ami-12345678]&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000003</RequestID>
</Response>

# What a launch asks for is shown.
> Action=RunInstances&ImageId=ami-12345678&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&EbsOptimized=true&Monitoring.Enabled=true&HibernationOptions.Configured=true
200
<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
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
                <state>enabled</state>
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
            <ebsOptimized>true</ebsOptimized>
            <hibernationOptions>
                <configured>true</configured>
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

@ 2m
# A stopped machine has no status, but for those who ask for all.
> Action=StopInstances&InstanceId.1=i-1da0d28a326013512
200
<StopInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000005</requestId>
    <instancesSet>
        <item>
            <instanceId>i-1da0d28a326013512</instanceId>
            <currentState>
                <code>64</code>
                <name>stopping</name>
            </currentState>
            <previousState>
                <code>16</code>
                <name>running</name>
            </previousState>
        </item>
    </instancesSet>
</StopInstancesResponse>

> Action=DescribeInstanceStatus&InstanceId.1=i-1da0d28a326013512
200
<DescribeInstanceStatusResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000006</requestId>
    <instanceStatusSet></instanceStatusSet>
</DescribeInstanceStatusResponse>

# More than 50 tags.
> Action=CreateTags&ResourceId.1=i-1da0d28a326013512&Tag.1.Key=k1&Tag.1.Value=&Tag.2.Key=k2&Tag.2.Value=&Tag.3.Key=k3&Tag.3.Value=&Tag.4.Key=k4&Tag.4.Value=&Tag.5.Key=k5&Tag.5.Value=&Tag.6.Key=k6&Tag.6.Value=&Tag.7.Key=k7&Tag.7.Value=&Tag.8.Key=k8&Tag.8.Value=&Tag.9.Key=k9&Tag.9.Value=&Tag.10.Key=k10&Tag.10.Value=&Tag.11.Key=k11&Tag.11.Value=&Tag.12.Key=k12&Tag.12.Value=&Tag.13.Key=k13&Tag.13.Value=&Tag.14.Key=k14&Tag.14.Value=&Tag.15.Key=k15&Tag.15.Value=&Tag.16.Key=k16&Tag.16.Value=&Tag.17.Key=k17&Tag.17.Value=&Tag.18.Key=k18&Tag.18.Value=&Tag.19.Key=k19&Tag.19.Value=&Tag.20.Key=k20&Tag.20.Value=&Tag.21.Key=k21&Tag.21.Value=&Tag.22.Key=k22&Tag.22.Value=&Tag.23.Key=k23&Tag.23.Value=&Tag.24.Key=k24&Tag.24.Value=&Tag.25.Key=k25&Tag.25.Value=&Tag.26.Key=k26&Tag.26.Value=&Tag.27.Key=k27&Tag.27.Value=&Tag.28.Key=k28&Tag.28.Value=&Tag.29.Key=k29&Tag.29.Value=&Tag.30.Key=k30&Tag.30.Value=&Tag.31.Key=k31&Tag.31.Value=&Tag.32.Key=k32&Tag.32.Value=&Tag.33.Key=k33&Tag.33.Value=&Tag.34.Key=k34&Tag.34.Value=&Tag.35.Key=k35&Tag.35.Value=&Tag.36.Key=k36&Tag.36.Value=&Tag.37.Key=k37&Tag.37.Value=&Tag.38.Key=k38&Tag.38.Value=&Tag.39.Key=k39&Tag.39.Value=&Tag.40.Key=k40&Tag.40.Value=&Tag.41.Key=k41&Tag.41.Value=&Tag.42.Key=k42&Tag.42.Value=&Tag.43.Key=k43&Tag.43.Value=&Tag.44.Key=k44&Tag.44.Value=&Tag.45.Key=k45&Tag.45.Value=&Tag.46.Key=k46&Tag.46.Value=&Tag.47.Key=k47&Tag.47.Value=&Tag.48.Key=k48&Tag.48.Value=&Tag.49.Key=k49&Tag.49.Value=&Tag.50.Key=k50&Tag.50.Value=&Tag.51.Key=k51&Tag.51.Value=
400
<Response>
    <Errors>
        <Error>
            <Code>TagLimitExceeded</Code>
            <Message>The maximum number of Tags for a resource has been reached.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000007</RequestID>
</Response>

> Action=DescribeTags
200
<DescribeTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000008</requestId>
    <tagSet></tagSet>
</DescribeTagsResponse>

