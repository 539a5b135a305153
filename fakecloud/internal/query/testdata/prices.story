# Newest first, and nothing of the future.
> Action=DescribeSpotPriceHistory&EndTime=2099-01-01T00:00:00Z
200
<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000001</requestId>
    <spotPriceHistorySet>
        <item>
            <instanceType>c3.xlarge</instanceType>
            <productDescription>Linux/UNIX</productDescription>
            <spotPrice>0.050000</spotPrice>
            <timestamp>2014-03-31T23:30:00.000Z</timestamp>
            <availabilityZone>us-west-1a</availabilityZone>
        </item>
        <item>
            <instanceType>c3.xlarge</instanceType>
            <productDescription>Linux/UNIX</productDescription>
            <spotPrice>0.060000</spotPrice>
            <timestamp>2014-03-31T23:00:00.000Z</timestamp>
            <availabilityZone>us-west-1c</availabilityZone>
        </item>
        <item>
            <instanceType>c3.xlarge</instanceType>
            <productDescription>Linux/UNIX</productDescription>
            <spotPrice>0.040000</spotPrice>
            <timestamp>2014-03-31T22:00:00.000Z</timestamp>
            <availabilityZone>us-west-1a</availabilityZone>
        </item>
    </spotPriceHistorySet>
    <nextToken></nextToken>
</DescribeSpotPriceHistoryResponse>

# With the price in force at the start; the second name of the product is taken too.
> Action=DescribeSpotPriceHistory&StartTime=2014-03-31T23:45:00Z&AvailabilityZone=us-west-1a&InstanceType.1=c3.xlarge&ProductDescription.1=Linux%2FUNIX+(Amazon+VPC)
200
<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000002</requestId>
    <spotPriceHistorySet>
        <item>
            <instanceType>c3.xlarge</instanceType>
            <productDescription>Linux/UNIX</productDescription>
            <spotPrice>0.050000</spotPrice>
            <timestamp>2014-03-31T23:30:00.000Z</timestamp>
            <availabilityZone>us-west-1a</availabilityZone>
        </item>
    </spotPriceHistorySet>
    <nextToken></nextToken>
</DescribeSpotPriceHistoryResponse>

> Action=DescribeSpotPriceHistory&ProductDescription.1=Windows
200
<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000003</requestId>
    <spotPriceHistorySet></spotPriceHistorySet>
    <nextToken></nextToken>
</DescribeSpotPriceHistoryResponse>

> Action=DescribeSpotPriceHistory&Filter.1.Name=availability-zone&Filter.1.Value.1=us-west-1c
200
<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000004</requestId>
    <spotPriceHistorySet>
        <item>
            <instanceType>c3.xlarge</instanceType>
            <productDescription>Linux/UNIX</productDescription>
            <spotPrice>0.060000</spotPrice>
            <timestamp>2014-03-31T23:00:00.000Z</timestamp>
            <availabilityZone>us-west-1c</availabilityZone>
        </item>
    </spotPriceHistorySet>
    <nextToken></nextToken>
</DescribeSpotPriceHistoryResponse>

@ 30m
> Action=DescribeSpotPriceHistory&StartTime=2014-04-01T00:30:00Z&AvailabilityZone=us-west-1a
200
<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
    <requestId>00000000-0000-4000-8000-000000000005</requestId>
    <spotPriceHistorySet>
        <item>
            <instanceType>c3.xlarge</instanceType>
            <productDescription>Linux/UNIX</productDescription>
            <spotPrice>0.400000</spotPrice>
            <timestamp>2014-04-01T00:30:00.000Z</timestamp>
            <availabilityZone>us-west-1a</availabilityZone>
        </item>
    </spotPriceHistorySet>
    <nextToken></nextToken>
</DescribeSpotPriceHistoryResponse>

