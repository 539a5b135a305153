> Action=RunInstances&InstanceType=c3.xlarge&MinCount=1&MaxCount=1
400
<Response>
    <Errors>
        <Error>
            <Code>MissingParameter</Code>
            <Message>The request must contain the parameter ImageId</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000001</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&MaxCount=1
400
<Response>
    <Errors>
        <Error>
            <Code>MissingParameter</Code>
            <Message>The request must contain the parameter MinCount</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000002</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&MinCount=2&MaxCount=1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>MinCount 2 and MaxCount 1 must be from 1 to 1000 and in order</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000003</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&MinCount=1&MaxCount=x
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value (x) for parameter MaxCount is invalid.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000004</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=x9.huge&MinCount=1&MaxCount=1
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Invalid value &#39;x9.huge&#39; for InstanceType.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000005</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=0.03
400
<Response>
    <Errors>
        <Error>
            <Code>SpotMaxPriceTooLow</Code>
            <Message>Your Spot request price of 0.03 is lower than the minimum required Spot request fulfillment price of 0.05.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000006</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&InstanceMarketOptions.MarketType=spot&InstanceMarketOptions.SpotOptions.MaxPrice=cheap
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value (cheap) for parameter InstanceMarketOptions.SpotOptions.MaxPrice is invalid.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000007</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=3&MaxCount=3&InstanceMarketOptions.MarketType=spot&Placement.AvailabilityZone=us-west-1c
500
<Response>
    <Errors>
        <Error>
            <Code>InsufficientInstanceCapacity</Code>
            <Message>We currently do not have sufficient c3.xlarge capacity in the Availability Zone you requested (us-west-1c).</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000008</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=9&MaxCount=9&InstanceMarketOptions.MarketType=spot&Placement.AvailabilityZone=us-west-1a
400
<Response>
    <Errors>
        <Error>
            <Code>MaxSpotInstanceCountExceeded</Code>
            <Message>Max spot instance count exceeded</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000009</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=3&MaxCount=3
400
<Response>
    <Errors>
        <Error>
            <Code>InstanceLimitExceeded</Code>
            <Message>You have requested more instances than your current instance limit of 2 allows.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000a</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=m6g.large&MinCount=1&MaxCount=1&InstanceMarketOptions.MarketType=spot&Placement.AvailabilityZone=us-west-1a
400
<Response>
    <Errors>
        <Error>
            <Code>Unsupported</Code>
            <Message>Your requested instance type (m6g.large) is not supported in your requested Availability Zone (us-west-1a).</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000b</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&MinCount=1&MaxCount=1&UserData=%21
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidUserData.Malformed</Code>
            <Message>Invalid BASE64 encoding of user data.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000c</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&InstanceTyp=c3.large
400
<Response>
    <Errors>
        <Error>
            <Code>UnknownParameter</Code>
            <Message>The parameter InstanceTyp is not recognized</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000d</RequestID>
</Response>

> Action=RunInstances&ImageId=ami-1&InstanceType=c3.xlarge&MinCount=1&MaxCount=1&DryRun=true
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

> Action=DescribeInstances&InstanceId.1=i-0123456789abcdef0
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceID.NotFound</Code>
            <Message>The instance ID &#39;i-0123456789abcdef0&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000000f</RequestID>
</Response>

> Action=DescribeInstances&InstanceId.1=instance
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceID.Malformed</Code>
            <Message>Invalid id: &#34;instance&#34;</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000010</RequestID>
</Response>

> Action=DescribeInstances&Filter.1.Name=colour&Filter.1.Value.1=red
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>The filter &#39;colour&#39; is invalid</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000011</RequestID>
</Response>

> Action=DescribeInstances&MaxResults=3
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value ( 3 ) for parameter maxResults is invalid. Expecting a value between 5 and 1000.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000012</RequestID>
</Response>

> Action=DescribeInstances&NextToken=nonsense
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Invalid value for NextToken.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000013</RequestID>
</Response>

> Action=TerminateInstances
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterCombination</Code>
            <Message>No instances specified</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000014</RequestID>
</Response>

> Action=TerminateInstances&InstanceId.1=i-0123456789abcdef0
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceID.NotFound</Code>
            <Message>The instance ID &#39;i-0123456789abcdef0&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000015</RequestID>
</Response>

> Action=CreateTags&ResourceId.1=i-0123456789abcdef0&Tag.1.Key=a&Tag.1.Value=b
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidInstanceID.NotFound</Code>
            <Message>The instance ID &#39;i-0123456789abcdef0&#39; does not exist</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000016</RequestID>
</Response>

> Action=CreateTags&ResourceId.1=vol-1&Tag.1.Key=a&Tag.1.Value=b
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidID</Code>
            <Message>The ID &#39;vol-1&#39; is not valid</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000017</RequestID>
</Response>

> Action=CreateTags&ResourceId.1=vol-1&Tag.1.Key=aws%3Aa&Tag.1.Value=b
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Tag keys starting with &#39;aws:&#39; are reserved for internal use</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000018</RequestID>
</Response>

> Action=DescribeSpotPriceHistory&StartTime=yesterday
400
<Response>
    <Errors>
        <Error>
            <Code>InvalidParameterValue</Code>
            <Message>Value (yesterday) for parameter StartTime is invalid.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-000000000019</RequestID>
</Response>

throttle 1s
> Action=DescribeRegions
503
<Response>
    <Errors>
        <Error>
            <Code>RequestLimitExceeded</Code>
            <Message>Request limit exceeded.</Message>
        </Error>
    </Errors>
    <RequestID>00000000-0000-4000-8000-00000000001a</RequestID>
</Response>

