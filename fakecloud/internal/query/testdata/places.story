> Action=DescribeRegions
200
<DescribeRegionsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000001</requestId>
    <regionInfo>
        <item>
            <regionName>us-west-1</regionName>
            <regionEndpoint>ec2.local</regionEndpoint>
            <optInStatus>opt-in-not-required</optInStatus>
        </item>
    </regionInfo>
</DescribeRegionsResponse>

> Action=DescribeAvailabilityZones
200
<DescribeAvailabilityZonesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <availabilityZoneInfo>
        <item>
            <zoneName>us-west-1a</zoneName>
            <zoneState>available</zoneState>
            <regionName>us-west-1</regionName>
            <optInStatus>opt-in-not-required</optInStatus>
            <messageSet></messageSet>
            <zoneId>usw1-az1</zoneId>
            <groupName>us-west-1</groupName>
            <networkBorderGroup>us-west-1</networkBorderGroup>
            <zoneType>availability-zone</zoneType>
        </item>
        <item>
            <zoneName>us-west-1c</zoneName>
            <zoneState>available</zoneState>
            <regionName>us-west-1</regionName>
            <optInStatus>opt-in-not-required</optInStatus>
            <messageSet></messageSet>
            <zoneId>usw1-az2</zoneId>
            <groupName>us-west-1</groupName>
            <networkBorderGroup>us-west-1</networkBorderGroup>
            <zoneType>availability-zone</zoneType>
        </item>
    </availabilityZoneInfo>
</DescribeAvailabilityZonesResponse>

> Action=DescribeInstanceTypes&InstanceType.1=m6g.large
200
<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <instanceTypeSet>
        <item>
            <instanceType>m6g.large</instanceType>
            <currentGeneration>true</currentGeneration>
            <freeTierEligible>false</freeTierEligible>
            <supportedUsageClasses>
                <item>on-demand</item>
            </supportedUsageClasses>
            <supportedRootDeviceTypes>
                <item>ebs</item>
            </supportedRootDeviceTypes>
            <supportedVirtualizationTypes>
                <item>hvm</item>
            </supportedVirtualizationTypes>
            <bareMetal>false</bareMetal>
            <hypervisor>xen</hypervisor>
            <processorInfo>
                <supportedArchitectures>
                    <item>arm64</item>
                </supportedArchitectures>
            </processorInfo>
            <vCpuInfo>
                <defaultVCpus>2</defaultVCpus>
                <defaultCores>2</defaultCores>
                <defaultThreadsPerCore>1</defaultThreadsPerCore>
            </vCpuInfo>
            <memoryInfo>
                <sizeInMiB>8192</sizeInMiB>
            </memoryInfo>
        </item>
    </instanceTypeSet>
</DescribeInstanceTypesResponse>

> Action=DescribeInstanceTypes&Filter.1.Name=supported-usage-class&Filter.1.Value.1=spot
200
<DescribeInstanceTypesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <instanceTypeSet>
        <item>
            <instanceType>c3.xlarge</instanceType>
            <currentGeneration>true</currentGeneration>
            <freeTierEligible>false</freeTierEligible>
            <supportedUsageClasses>
                <item>on-demand</item>
                <item>spot</item>
            </supportedUsageClasses>
            <supportedRootDeviceTypes>
                <item>ebs</item>
            </supportedRootDeviceTypes>
            <supportedVirtualizationTypes>
                <item>hvm</item>
            </supportedVirtualizationTypes>
            <bareMetal>false</bareMetal>
            <hypervisor>xen</hypervisor>
            <processorInfo>
                <supportedArchitectures>
                    <item>x86_64</item>
                </supportedArchitectures>
            </processorInfo>
            <vCpuInfo>
                <defaultVCpus>4</defaultVCpus>
                <defaultCores>4</defaultCores>
                <defaultThreadsPerCore>1</defaultThreadsPerCore>
            </vCpuInfo>
            <memoryInfo>
                <sizeInMiB>7680</sizeInMiB>
            </memoryInfo>
        </item>
    </instanceTypeSet>
</DescribeInstanceTypesResponse>

> Action=DescribeInstanceTypes&InstanceType.1=x9.huge
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceType</Code>
            <Message>The following supplied instance types do not exist: [x9.huge]</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000005</RequestID>
</Response>

> Action=DescribeAvailabilityZones&ZoneName.1=us-west-1z
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Invalid availability zone: [us-west-1z]</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000006</RequestID>
</Response>

> Action=DescribeRegions&RegionName.1=eu-west-1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Invalid region: [eu-west-1]</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000007</RequestID>
</Response>

