# Machines need the provider's endpoints and nothing needs to reach them from outside: they have public addresses, which
# cost less than a NAT gateway, and security groups that let nobody in but each other.

resource "aws_vpc" "cluster" {
  cidr_block           = var.vpc_cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.cluster }
}

resource "aws_subnet" "zone" {
  for_each = { for index, zone in var.zones : zone => index }

  vpc_id                  = aws_vpc.cluster.id
  availability_zone       = each.key
  cidr_block              = cidrsubnet(var.vpc_cidr, 4, each.value)
  map_public_ip_on_launch = true
  tags                    = { Name = "${var.cluster} ${each.key}" }
}

resource "aws_internet_gateway" "cluster" {
  vpc_id = aws_vpc.cluster.id
  tags   = { Name = var.cluster }
}

resource "aws_route_table" "cluster" {
  vpc_id = aws_vpc.cluster.id
  tags   = { Name = var.cluster }

  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.cluster.id
  }
}

resource "aws_route_table_association" "zone" {
  for_each = aws_subnet.zone

  subnet_id      = each.value.id
  route_table_id = aws_route_table.cluster.id
}

# Checkpoints and training data do not leave Amazon's network, and cost nothing to carry.
resource "aws_vpc_endpoint" "storage" {
  vpc_id          = aws_vpc.cluster.id
  service_name    = "com.amazonaws.${var.region}.s3"
  route_table_ids = [aws_route_table.cluster.id]
  tags            = { Name = var.cluster }
}

resource "aws_security_group" "controller" {
  name        = "${var.cluster}-controller"
  description = "TierML controller: reached by its machines only"
  vpc_id      = aws_vpc.cluster.id
  tags        = { Name = "${var.cluster}-controller" }
}

resource "aws_security_group" "machines" {
  name        = "${var.cluster}-machines"
  description = "TierML machines: reached by each other only"
  vpc_id      = aws_vpc.cluster.id
  tags        = { Name = "${var.cluster}-machines" }
}

resource "aws_vpc_security_group_ingress_rule" "control" {
  description                  = "agents to their controller"
  security_group_id            = aws_security_group.controller.id
  referenced_security_group_id = aws_security_group.machines.id
  ip_protocol                  = "tcp"
  from_port                    = 1024
  to_port                      = 65535
}

resource "aws_vpc_security_group_ingress_rule" "data" {
  description                  = "workers to parameter servers, servers to backups"
  security_group_id            = aws_security_group.machines.id
  referenced_security_group_id = aws_security_group.machines.id
  ip_protocol                  = "tcp"
  from_port                    = 1024
  to_port                      = 65535
}

resource "aws_vpc_security_group_egress_rule" "out" {
  for_each = {
    controller = aws_security_group.controller.id
    machines   = aws_security_group.machines.id
  }

  description       = "the provider's endpoints, and each other"
  security_group_id = each.value
  ip_protocol       = "-1"
  cidr_ipv4         = "0.0.0.0/0"
}
