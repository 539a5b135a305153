# Cancelling a request leaves its instance running, as on EC2.
> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&InstanceMarketOptions.MarketType=spot&Placement.AvailabilityZone=us-west-1c
200
<RunInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000001</requestId>
    <reservationId>r-44ffd670373170de4</reservationId>
    <ownerId>000000000000</ownerId>
    <groupSet></groupSet>
    <instancesSet>
        <item>
            <instanceId>i-1da0d28a326013512</instanceId>
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
            <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
            <clientToken></clientToken>
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

@ 1m
> Action=CancelSpotInstanceRequests&SpotInstanceRequestId.1={r1}
200
<CancelSpotInstanceRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <spotInstanceRequestSet>
        <item>
            <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
            <state>cancelled</state>
        </item>
    </spotInstanceRequestSet>
</CancelSpotInstanceRequestsResponse>

> Action=DescribeSpotInstanceRequests
200
<DescribeSpotInstanceRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <spotInstanceRequestSet>
        <item>
            <spotInstanceRequestId>sir-835uv43x</spotInstanceRequestId>
            <spotPrice>0.239000</spotPrice>
            <type>one-time</type>
            <state>cancelled</state>
            <status>
                <code>request-canceled-and-instance-running</code>
                <updateTime>2014-04-01T00:01:00.000Z</updateTime>
                <message>Your Spot request is canceled, but your Spot instance is still running.</message>
            </status>
            <launchSpecification>
                <imageId>ami-1</imageId>
                <instanceType>c3.xlarge</instanceType>
                <placement>
                    <availabilityZone>us-west-1c</availabilityZone>
                </placement>
            </launchSpecification>
            <instanceId>i-1da0d28a326013512</instanceId>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <productDescription>Linux/UNIX</productDescription>
            <launchedAvailabilityZone>us-west-1c</launchedAvailabilityZone>
            <instanceInterruptionBehavior>terminate</instanceInterruptionBehavior>
        </item>
    </spotInstanceRequestSet>
</DescribeSpotInstanceRequestsResponse>

> Action=CancelSpotInstanceRequests&SpotInstanceRequestId.1=sir-aaaaaaaa
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidSpotInstanceRequestID.NotFound</Code>
            <Message>The spot instance request ID &#39;sir-aaaaaaaa&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000004</RequestID>
</Response>

> Action=DescribeSpotInstanceRequests&SpotInstanceRequestId.1=nonsense
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidSpotInstanceRequestID.Malformed</Code>
            <Message>Invalid id: &#34;nonsense&#34; (expecting &#34;sir-...&#34;)</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000005</RequestID>
</Response>

