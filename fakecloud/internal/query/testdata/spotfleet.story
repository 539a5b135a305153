# Spot Fleets: launch specifications, the states, and what would change a call is refused.
> Action=RequestSpotFleet&SpotFleetRequestConfig.IamFleetRole=r&SpotFleetRequestConfig.TargetCapacity=2&SpotFleetRequestConfig.ClientToken=once
> &SpotFleetRequestConfig.LaunchSpecifications.1.ImageId=ami-12345678&SpotFleetRequestConfig.LaunchSpecifications.1.InstanceType=c3.xlarge
> &SpotFleetRequestConfig.LaunchSpecifications.1.Placement.AvailabilityZone=us-west-1a,%20us-west-1c&SpotFleetRequestConfig.SpotPrice=0.10
> &SpotFleetRequestConfig.LaunchSpecifications.1.GroupSet.1.GroupName=default&SpotFleetRequestConfig.AllocationStrategy=diversified
> &SpotFleetRequestConfig.LaunchSpecifications.1.TagSpecificationSet.1.ResourceType=instance
> &SpotFleetRequestConfig.LaunchSpecifications.1.TagSpecificationSet.1.Tag.1.Key=k&SpotFleetRequestConfig.LaunchSpecifications.1.TagSpecificationSet.1.Tag.1.Value=v
> &SpotFleetRequestConfig.TagSpecification.1.ResourceType=spot-fleet-request&SpotFleetRequestConfig.TagSpecification.1.Tag.1.Key=team&SpotFleetRequestConfig.TagSpecification.1.Tag.1.Value=a
200
<RequestSpotFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000001</requestId>
    <spotFleetRequestId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</spotFleetRequestId>
</RequestSpotFleetResponse>

> Action=DescribeSpotFleetRequests&SpotFleetRequestId.1={f1}
200
<DescribeSpotFleetRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <spotFleetRequestConfigSet>
        <item>
            <spotFleetRequestId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</spotFleetRequestId>
            <spotFleetRequestState>active</spotFleetRequestState>
            <activityStatus>fulfilled</activityStatus>
            <createTime>2014-04-01T00:00:00.000Z</createTime>
            <spotFleetRequestConfig>
                <allocationStrategy>diversified</allocationStrategy>
                <clientToken>once</clientToken>
                <excessCapacityTerminationPolicy>default</excessCapacityTerminationPolicy>
                <fulfilledCapacity>2</fulfilledCapacity>
                <iamFleetRole>r</iamFleetRole>
                <instanceInterruptionBehavior>terminate</instanceInterruptionBehavior>
                <launchSpecifications>
                    <item>
                        <groupSet>
                            <item>
                                <groupName>default</groupName>
                            </item>
                        </groupSet>
                        <imageId>ami-12345678</imageId>
                        <instanceType>c3.xlarge</instanceType>
                        <placement>
                            <availabilityZone>us-west-1a, us-west-1c</availabilityZone>
                        </placement>
                        <tagSpecificationSet>
                            <item>
                                <resourceType>instance</resourceType>
                                <tag>
                                    <item>
                                        <key>k</key>
                                        <value>v</value>
                                    </item>
                                </tag>
                            </item>
                        </tagSpecificationSet>
                    </item>
                </launchSpecifications>
                <onDemandFulfilledCapacity>0</onDemandFulfilledCapacity>
                <replaceUnhealthyInstances>false</replaceUnhealthyInstances>
                <spotPrice>0.10</spotPrice>
                <targetCapacity>2</targetCapacity>
                <terminateInstancesWithExpiration>false</terminateInstancesWithExpiration>
                <type>maintain</type>
            </spotFleetRequestConfig>
            <tagSet>
                <item>
                    <key>team</key>
                    <value>a</value>
                </item>
            </tagSet>
        </item>
    </spotFleetRequestConfigSet>
</DescribeSpotFleetRequestsResponse>

> Action=DescribeSpotFleetInstances&SpotFleetRequestId={f1}
200
<DescribeSpotFleetInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <spotFleetRequestId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</spotFleetRequestId>
    <activeInstanceSet>
        <item>
            <instanceId>i-88ed6463047b37f29</instanceId>
            <instanceType>c3.xlarge</instanceType>
            <spotInstanceRequestId>sir-43x9d5gq</spotInstanceRequestId>
            <instanceHealth>healthy</instanceHealth>
        </item>
        <item>
            <instanceId>i-cc81eb3bb639167f6</instanceId>
            <instanceType>c3.xlarge</instanceType>
            <spotInstanceRequestId>sir-4r7r739s</spotInstanceRequestId>
            <instanceHealth>healthy</instanceHealth>
        </item>
    </activeInstanceSet>
</DescribeSpotFleetInstancesResponse>

> Action=DescribeTags&Filter.1.Name=key&Filter.1.Value.1=aws:ec2spot:fleet-request-id&Filter.1.Value.2=team&Filter.1.Value.3=k
200
<DescribeTagsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <tagSet>
        <item>
            <resourceId>i-88ed6463047b37f29</resourceId>
            <resourceType>instance</resourceType>
            <key>aws:ec2spot:fleet-request-id</key>
            <value>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</value>
        </item>
        <item>
            <resourceId>i-88ed6463047b37f29</resourceId>
            <resourceType>instance</resourceType>
            <key>k</key>
            <value>v</value>
        </item>
        <item>
            <resourceId>i-cc81eb3bb639167f6</resourceId>
            <resourceType>instance</resourceType>
            <key>aws:ec2spot:fleet-request-id</key>
            <value>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</value>
        </item>
        <item>
            <resourceId>i-cc81eb3bb639167f6</resourceId>
            <resourceType>instance</resourceType>
            <key>k</key>
            <value>v</value>
        </item>
        <item>
            <resourceId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</resourceId>
            <resourceType>spot-fleet-request</resourceType>
            <key>team</key>
            <value>a</value>
        </item>
    </tagSet>
</DescribeTagsResponse>

> Action=DescribeFleets
200
<DescribeFleetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000005</requestId>
    <fleetSet></fleetSet>
</DescribeFleetsResponse>

> Action=DescribeFleetInstances&FleetId={f1}
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidFleetId.NotFound</Code>
            <Message>The fleet ID &#39;sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000006</RequestID>
</Response>

> Action=ModifySpotFleetRequest&SpotFleetRequestId={f1}&TargetCapacity=3
200
<ModifySpotFleetRequestResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000007</requestId>
    <return>true</return>
</ModifySpotFleetRequestResponse>

@ +1m
> Action=DescribeSpotFleetInstances&SpotFleetRequestId={f1}&MaxResults=2
200
<DescribeSpotFleetInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000008</requestId>
    <spotFleetRequestId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</spotFleetRequestId>
    <activeInstanceSet>
        <item>
            <instanceId>i-88ed6463047b37f29</instanceId>
            <instanceType>c3.xlarge</instanceType>
            <spotInstanceRequestId>sir-43x9d5gq</spotInstanceRequestId>
            <instanceHealth>healthy</instanceHealth>
        </item>
        <item>
            <instanceId>i-cc81eb3bb639167f6</instanceId>
            <instanceType>c3.xlarge</instanceType>
            <spotInstanceRequestId>sir-4r7r739s</spotInstanceRequestId>
            <instanceHealth>healthy</instanceHealth>
        </item>
    </activeInstanceSet>
    <nextToken>Mi8xMzk2MzEwNDYwMDAwMDAwMDAw</nextToken>
</DescribeSpotFleetInstancesResponse>

> Action=ModifySpotFleetRequest&SpotFleetRequestId={f1}&TargetCapacity=1&ExcessCapacityTerminationPolicy=default&DryRun=true
412
<Response>
    <Errors>
        <Error>
            <Code>DryRunOperation</Code>
            <Message>Request would have succeeded, but DryRun flag is set.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000009</RequestID>
</Response>

> Action=ModifySpotFleetRequest&SpotFleetRequestId={f1}&TargetCapacity=1
200
<ModifySpotFleetRequestResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000a</requestId>
    <return>true</return>
</ModifySpotFleetRequestResponse>

> Action=CancelSpotFleetRequests&SpotFleetRequestId.1={f1}&SpotFleetRequestId.2=sfr-00000000-0000-0000-0000-000000000000&SpotFleetRequestId.3=x&TerminateInstances=true
200
<CancelSpotFleetRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000b</requestId>
    <successfulFleetRequestSet>
        <item>
            <currentSpotFleetRequestState>cancelled_terminating</currentSpotFleetRequestState>
            <previousSpotFleetRequestState>active</previousSpotFleetRequestState>
            <spotFleetRequestId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</spotFleetRequestId>
        </item>
    </successfulFleetRequestSet>
    <unsuccessfulFleetRequestSet>
        <item>
            <error>
                <code>fleetRequestIdDoesNotExist</code>
                <message>The spot fleet request ID &#39;sfr-00000000-0000-0000-0000-000000000000&#39; does not exist</message>
            </error>
            <spotFleetRequestId>sfr-00000000-0000-0000-0000-000000000000</spotFleetRequestId>
        </item>
        <item>
            <error>
                <code>fleetRequestIdMalformed</code>
                <message>The spot fleet request ID &#39;x&#39; is malformed</message>
            </error>
            <spotFleetRequestId>x</spotFleetRequestId>
        </item>
    </unsuccessfulFleetRequestSet>
</CancelSpotFleetRequestsResponse>

> Action=CancelSpotFleetRequests&SpotFleetRequestId.1={f1}&TerminateInstances=false
200
<CancelSpotFleetRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000c</requestId>
    <successfulFleetRequestSet></successfulFleetRequestSet>
    <unsuccessfulFleetRequestSet>
        <item>
            <error>
                <code>fleetRequestNotInCancellableState</code>
                <message>The fleet request is not in a cancellable state.</message>
            </error>
            <spotFleetRequestId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</spotFleetRequestId>
        </item>
    </unsuccessfulFleetRequestSet>
</CancelSpotFleetRequestsResponse>

> Action=DescribeSpotFleetRequestHistory&SpotFleetRequestId={f1}&StartTime=2014-04-01T00:00:00Z&EventType=fleetRequestChange
200
<DescribeSpotFleetRequestHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000000d</requestId>
    <historyRecordSet>
        <item>
            <eventInformation>
                <eventSubType>submitted</eventSubType>
            </eventInformation>
            <eventType>fleetRequestChange</eventType>
            <timestamp>2014-04-01T00:00:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventSubType>active</eventSubType>
            </eventInformation>
            <eventType>fleetRequestChange</eventType>
            <timestamp>2014-04-01T00:00:00.000Z</timestamp>
        </item>
        <item>
            <eventInformation>
                <eventSubType>cancelled_terminating</eventSubType>
            </eventInformation>
            <eventType>fleetRequestChange</eventType>
            <timestamp>2014-04-01T00:01:00.000Z</timestamp>
        </item>
    </historyRecordSet>
    <lastEvaluatedTime>2014-04-01T00:01:00.000Z</lastEvaluatedTime>
    <spotFleetRequestId>sfr-44ffd670-4cba-1da0-2ae7-dd8a70c6660f</spotFleetRequestId>
    <startTime>2014-04-01T00:00:00.000Z</startTime>
</DescribeSpotFleetRequestHistoryResponse>

> Action=DescribeSpotFleetRequestHistory&SpotFleetRequestId={f1}&StartTime=2014-04-01T00:00:00Z&EventType=fleet-change
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value (fleet-change) for parameter EventType is invalid.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000e</RequestID>
</Response>

# Refused.
> Action=RequestSpotFleet&SpotFleetRequestConfig.IamFleetRole=r&SpotFleetRequestConfig.TargetCapacity=1&SpotFleetRequestConfig.InstancePoolsToUseCount=2
> &SpotFleetRequestConfig.LaunchSpecifications.1.ImageId=ami-12345678&SpotFleetRequestConfig.LaunchSpecifications.1.InstanceType=c3.xlarge
400
<Response>
    <Errors>
        <Error>
            <Code>Unsupported</Code>
            <Message>Several pools (InstancePoolsToUseCount) are not supported here; use diversified.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000f</RequestID>
</Response>

> Action=RequestSpotFleet&SpotFleetRequestConfig.IamFleetRole=r&SpotFleetRequestConfig.TargetCapacity=1
400
<Response>
    <Errors>
        <Error>
            <Code>MissingParameter</Code>
            <Message>The request must contain the parameter SpotFleetRequestConfig.LaunchTemplateConfigs</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000010</RequestID>
</Response>

> Action=RequestSpotFleet&SpotFleetRequestConfig.IamFleetRole=r&SpotFleetRequestConfig.TargetCapacity=1
> &SpotFleetRequestConfig.LaunchSpecifications.1.ImageId=ami-12345678&SpotFleetRequestConfig.LaunchSpecifications.1.InstanceTyp=c3.xlarge
400
<Response>
    <Errors>
        <Error>
            <Code>UnknownParameter</Code>
            <Message>The parameter InstanceTyp is not recognized</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000011</RequestID>
</Response>

> Action=RequestSpotFleet&SpotFleetRequestConfig.IamFleetRole=r&SpotFleetRequestConfig.TargetCapacity=1&SpotFleetRequestConfig.OnDemandTargetCapacity=1
> &SpotFleetRequestConfig.LaunchSpecifications.1.ImageId=ami-12345678&SpotFleetRequestConfig.LaunchSpecifications.1.InstanceType=c3.xlarge
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidSpotFleetRequestConfig</Code>
            <Message>LaunchSpecifications cannot be combined with LaunchTemplateConfigs or OnDemandTargetCapacity.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000012</RequestID>
</Response>

> Action=RequestSpotFleet&SpotFleetRequestConfig.IamFleetRole=r&SpotFleetRequestConfig.TargetCapacity=1&SpotFleetRequestConfig.ValidUntil=2014-03-01T00:00:00Z
> &SpotFleetRequestConfig.LaunchSpecifications.1.ImageId=ami-12345678&SpotFleetRequestConfig.LaunchSpecifications.1.InstanceType=c3.xlarge
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidSpotFleetRequestConfig</Code>
            <Message>ValidUntil is in the past.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000013</RequestID>
</Response>

> Action=DescribeSpotFleetRequests&SpotFleetRequestId.1=sfr-0
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidSpotFleetRequestId.NotFound</Code>
            <Message>The spot fleet request ID &#39;sfr-0&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000014</RequestID>
</Response>

# By requirements, until a time.
> Action=CreateLaunchTemplate&LaunchTemplateName=worker&LaunchTemplateData.ImageId=ami-1
200
<CreateLaunchTemplateResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000015</requestId>
    <launchTemplate>
        <launchTemplateId>lt-2909542c7f345081f</launchTemplateId>
        <launchTemplateName>worker</launchTemplateName>
        <createTime>2014-04-01T00:01:00.000Z</createTime>
        <createdBy>arn:aws:iam::000000000000:root</createdBy>
        <defaultVersionNumber>1</defaultVersionNumber>
        <latestVersionNumber>1</latestVersionNumber>
    </launchTemplate>
</CreateLaunchTemplateResponse>

> Action=RequestSpotFleet&SpotFleetRequestConfig.IamFleetRole=r&SpotFleetRequestConfig.TargetCapacity=1&SpotFleetRequestConfig.Type=request
> &SpotFleetRequestConfig.ValidUntil=2014-04-01T00:10:00Z&SpotFleetRequestConfig.TerminateInstancesWithExpiration=true
> &SpotFleetRequestConfig.LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=worker&SpotFleetRequestConfig.LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1
> &SpotFleetRequestConfig.LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.VCpuCount.Min=4&SpotFleetRequestConfig.LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.MemoryMiB.Min=1024
> &SpotFleetRequestConfig.LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.AllowedInstanceTypeSet.1=c3.*
200
<RequestSpotFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000016</requestId>
    <spotFleetRequestId>sfr-0af55374-7597-a3c8-c244-b1096ebe046f</spotFleetRequestId>
</RequestSpotFleetResponse>

> Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1&TargetCapacitySpecification.DefaultTargetCapacityType=spot
> &LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=worker&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1
> &LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.VCpuCount.Min=1&LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.MemoryMiB.Min=0&LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.ExcludedInstanceType.1=m6g.*
200
<CreateFleetResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000017</requestId>
    <fleetId>fleet-bae555a8-f40f-3955-61ca-288ccefe3610</fleetId>
    <errorSet></errorSet>
    <fleetInstanceSet>
        <item>
            <launchTemplateAndOverrides>
                <launchTemplateSpecification>
                    <launchTemplateId>lt-2909542c7f345081f</launchTemplateId>
                    <version>1</version>
                </launchTemplateSpecification>
                <overrides>
                    <instanceType>c3.xlarge</instanceType>
                </overrides>
            </launchTemplateAndOverrides>
            <lifecycle>spot</lifecycle>
            <instanceIds>
                <item>i-e56d4cd345af7018a</item>
            </instanceIds>
            <instanceType>c3.xlarge</instanceType>
        </item>
    </fleetInstanceSet>
</CreateFleetResponse>

> Action=DescribeFleets&FleetId.1={f3}
200
<DescribeFleetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000018</requestId>
    <fleetSet>
        <item>
            <fleetId>fleet-bae555a8-f40f-3955-61ca-288ccefe3610</fleetId>
            <fleetState>active</fleetState>
            <type>instant</type>
            <createTime>2014-04-01T00:01:00.000Z</createTime>
            <fulfilledCapacity>1</fulfilledCapacity>
            <fulfilledOnDemandCapacity>0</fulfilledOnDemandCapacity>
            <targetCapacitySpecification>
                <totalTargetCapacity>1</totalTargetCapacity>
                <onDemandTargetCapacity>0</onDemandTargetCapacity>
                <spotTargetCapacity>1</spotTargetCapacity>
                <defaultTargetCapacityType>spot</defaultTargetCapacityType>
            </targetCapacitySpecification>
            <excessCapacityTerminationPolicy>termination</excessCapacityTerminationPolicy>
            <replaceUnhealthyInstances>false</replaceUnhealthyInstances>
            <terminateInstancesWithExpiration>false</terminateInstancesWithExpiration>
            <spotOptions>
                <allocationStrategy>lowest-price</allocationStrategy>
                <instanceInterruptionBehavior>terminate</instanceInterruptionBehavior>
                <maintenanceStrategies>
                    <capacityRebalance></capacityRebalance>
                </maintenanceStrategies>
            </spotOptions>
            <onDemandOptions>
                <allocationStrategy>lowest-price</allocationStrategy>
            </onDemandOptions>
            <launchTemplateConfigs>
                <item>
                    <launchTemplateSpecification>
                        <launchTemplateId>lt-2909542c7f345081f</launchTemplateId>
                        <launchTemplateName>worker</launchTemplateName>
                        <version>1</version>
                    </launchTemplateSpecification>
                    <overrides>
                        <item>
                            <instanceRequirements>
                                <excludedInstanceTypeSet>
                                    <item>m6g.*</item>
                                </excludedInstanceTypeSet>
                                <memoryMiB>
                                    <min>0</min>
                                </memoryMiB>
                                <vCpuCount>
                                    <min>1</min>
                                </vCpuCount>
                            </instanceRequirements>
                        </item>
                    </overrides>
                </item>
            </launchTemplateConfigs>
            <errorSet></errorSet>
        </item>
    </fleetSet>
</DescribeFleetsResponse>

> Action=CreateFleet&Type=instant&TargetCapacitySpecification.TotalTargetCapacity=1
> &LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=worker&LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version=1
> &LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.VCpuCount.Min=1&LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.MemoryMiB.Min=0&LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.LocalStorage=required
400
<Response>
    <Errors>
        <Error>
            <Code>Unsupported</Code>
            <Message>The parameter LaunchTemplateConfigs.1.Overrides.1.InstanceRequirements.LocalStorage is not supported here.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000019</RequestID>
</Response>

@ +20m
> Action=DescribeSpotFleetRequests&SpotFleetRequestId.1={f2}
200
<DescribeSpotFleetRequestsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000001a</requestId>
    <spotFleetRequestConfigSet>
        <item>
            <spotFleetRequestId>sfr-0af55374-7597-a3c8-c244-b1096ebe046f</spotFleetRequestId>
            <spotFleetRequestState>cancelled_terminating</spotFleetRequestState>
            <activityStatus>pending_termination</activityStatus>
            <createTime>2014-04-01T00:01:00.000Z</createTime>
            <spotFleetRequestConfig>
                <allocationStrategy>lowestPrice</allocationStrategy>
                <excessCapacityTerminationPolicy>default</excessCapacityTerminationPolicy>
                <fulfilledCapacity>0</fulfilledCapacity>
                <iamFleetRole>r</iamFleetRole>
                <instanceInterruptionBehavior>terminate</instanceInterruptionBehavior>
                <launchTemplateConfigs>
                    <item>
                        <launchTemplateSpecification>
                            <launchTemplateName>worker</launchTemplateName>
                            <version>1</version>
                        </launchTemplateSpecification>
                        <overrides>
                            <item>
                                <instanceRequirements>
                                    <allowedInstanceTypeSet>
                                        <item>c3.*</item>
                                    </allowedInstanceTypeSet>
                                    <memoryMiB>
                                        <min>1024</min>
                                    </memoryMiB>
                                    <vCpuCount>
                                        <min>4</min>
                                    </vCpuCount>
                                </instanceRequirements>
                            </item>
                        </overrides>
                    </item>
                </launchTemplateConfigs>
                <onDemandFulfilledCapacity>0</onDemandFulfilledCapacity>
                <replaceUnhealthyInstances>false</replaceUnhealthyInstances>
                <targetCapacity>1</targetCapacity>
                <terminateInstancesWithExpiration>true</terminateInstancesWithExpiration>
                <type>request</type>
                <validUntil>2014-04-01T00:10:00Z</validUntil>
            </spotFleetRequestConfig>
        </item>
    </spotFleetRequestConfigSet>
</DescribeSpotFleetRequestsResponse>

> Action=DeleteFleets&FleetId.1={f2}&TerminateInstances=true
200
<DeleteFleetsResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-00000000001b</requestId>
    <successfulFleetDeletionSet></successfulFleetDeletionSet>
    <unsuccessfulFleetDeletionSet>
        <item>
            <error>
                <code>fleetIdDoesNotExist</code>
                <message>The fleet ID &#39;sfr-0af55374-7597-a3c8-c244-b1096ebe046f&#39; does not exist</message>
            </error>
            <fleetId>sfr-0af55374-7597-a3c8-c244-b1096ebe046f</fleetId>
        </item>
    </unsuccessfulFleetDeletionSet>
</DeleteFleetsResponse>

