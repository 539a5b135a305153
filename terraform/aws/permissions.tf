# Three roles. The job server buys machines that carry the cluster's tag, and ends such machines and no others. The machines' own role reads the
# program that they run, and nothing else. With the store's role they read the data, read checkpoints and write parts of them, and keep programs'
# state and logs: the job server assumes it for each run, with a session policy for the run's own objects, and gives the machines that session's
# credentials. No statement allows all actions of a service; a resource is "*" where AWS allows nothing else (EC2's Describe calls, the price
# list, quotas).

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

locals {
  account = data.aws_caller_identity.current.account_id
  arn     = "arn:${data.aws_partition.current.partition}"
  ec2     = "${local.arn}:ec2:${var.region}:${local.account}"
  ec2_ssm = "${local.arn}:ssm:${var.region}:${local.account}"

  assume_by_ec2 = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "ec2.amazonaws.com" }
    }]
  })

  controller_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Look"
        Effect = "Allow"
        Action = [
          "ec2:DescribeInstances", "ec2:DescribeInstanceTypes", "ec2:DescribeSpotInstanceRequests",
          "ec2:DescribeSpotPriceHistory", "ec2:DescribeAvailabilityZones", "ec2:GetInstanceTypesFromInstanceRequirements",
          "ec2:GetSpotPlacementScores", "ec2:DescribeLaunchTemplates",
          "pricing:GetProducts", # on-demand prices, which are the same for everybody: there is no resource to narrow them to
          "servicequotas:GetServiceQuota",
        ]
        Resource = "*"
      },
      {
        Sid    = "BuyWithOurTag"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = [
          "${local.ec2}:instance/*", "${local.ec2}:volume/*", "${local.ec2}:spot-instances-request/*", "${local.ec2}:fleet/*",
        ]
        Condition = { StringEquals = { "aws:RequestTag/tierml:cluster" = var.cluster } }
      },
      { # what the machines of a fleet have in common; it lives for the length of a purchase
        Sid       = "MakeFleetTemplates"
        Effect    = "Allow"
        Action    = "ec2:CreateLaunchTemplate"
        Resource  = "${local.ec2}:launch-template/*"
        Condition = { StringEquals = { "aws:RequestTag/tierml:cluster" = var.cluster } }
      },
      {
        Sid       = "UseFleetTemplates"
        Effect    = "Allow"
        Action    = ["ec2:CreateFleet", "ec2:RunInstances", "ec2:DeleteLaunchTemplate"]
        Resource  = "${local.ec2}:launch-template/*"
        Condition = { StringEquals = { "aws:ResourceTag/tierml:cluster" = var.cluster } }
      },
      {
        Sid    = "BuyInOurNetwork"
        Effect = "Allow"
        Action = ["ec2:RunInstances", "ec2:CreateFleet"]
        Resource = concat(
          [for subnet in aws_subnet.zone : subnet.arn],
          [aws_security_group.machines.arn, "${local.ec2}:network-interface/*", "${local.arn}:ec2:${var.region}::image/*"],
        )
      },
      { # EC2 looks up the image with drivers for GPUs, which Amazon names, with the rights of who launches
        Sid      = "FindPublicImages"
        Effect   = "Allow"
        Action   = "ssm:GetParameters"
        Resource = "${local.arn}:ssm:${var.region}::parameter/aws/service/*"
      },
      {
        Sid       = "TagWhatIsBought"
        Effect    = "Allow"
        Action    = "ec2:CreateTags"
        Resource  = "${local.ec2}:*/*"
        Condition = { StringEquals = { "ec2:CreateAction" = ["RunInstances", "CreateFleet", "CreateLaunchTemplate"] } }
      },
      {
        Sid      = "RenewLeases"
        Effect   = "Allow"
        Action   = "ec2:CreateTags"
        Resource = "${local.ec2}:instance/*"
        Condition = {
          StringEquals                = { "aws:ResourceTag/tierml:cluster" = var.cluster }
          "ForAllValues:StringEquals" = { "aws:TagKeys" = ["tierml:expires", "tierml:generation"] }
        }
      },
      {
        Sid       = "EndOurs"
        Effect    = "Allow"
        Action    = "ec2:TerminateInstances"
        Resource  = "${local.ec2}:instance/*"
        Condition = { StringEquals = { "aws:ResourceTag/tierml:cluster" = var.cluster } }
      },
      {
        Sid       = "GiveMachinesTheirRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.machines.arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } }
      },
      { # narrowed by a session policy to one run
        Sid      = "GiveRunsTheirStore"
        Effect   = "Allow"
        Action   = "sts:AssumeRole"
        Resource = aws_iam_role.store.arn
      },
      {
        Sid      = "ListBucket"
        Effect   = "Allow"
        Action   = "s3:ListBucket"
        Resource = aws_s3_bucket.cluster.arn
      },
      {
        Sid      = "UseBucket"
        Effect   = "Allow"
        Action   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        Resource = "${aws_s3_bucket.cluster.arn}/*"
      },
    ]
  }

  machines_policy = {
    Version = "2012-10-17"
    Statement = [
      { # a script does, before the machine's agent has the credentials of its run
        Sid      = "ReadProgram"
        Effect   = "Allow"
        Action   = "s3:GetObject"
        Resource = "${aws_s3_bucket.cluster.arn}/program/*"
      },
    ]
  }

  store_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "ListCheckpoints"
        Effect    = "Allow"
        Action    = "s3:ListBucket"
        Resource  = aws_s3_bucket.cluster.arn
        Condition = { StringLike = { "s3:prefix" = ["checkpoints/*", "data/*"] } }
      },
      {
        Sid      = "ReadData"
        Effect   = "Allow"
        Action   = "s3:GetObject"
        Resource = "${aws_s3_bucket.cluster.arn}/data/*"
      },
      {
        Sid      = "ReadCheckpointsAndSplits"
        Effect   = "Allow"
        Action   = "s3:GetObject"
        Resource = "${aws_s3_bucket.cluster.arn}/checkpoints/*"
      },
      { # not manifests, nor splits: the job server writes those, and removes what is old
        Sid      = "WritePartsOfCheckpoints"
        Effect   = "Allow"
        Action   = ["s3:PutObject", "s3:AbortMultipartUpload"]
        Resource = "${aws_s3_bucket.cluster.arn}/checkpoints/*/clock-*/*.rows"
      },
      { # mirrors replace their claim, and remove what only older saves used
        Sid      = "KeepProgramsState"
        Effect   = "Allow"
        Action   = ["s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
        Resource = "${aws_s3_bucket.cluster.arn}/checkpoints/*/program/state/*"
      },
      {
        Sid      = "ShipProgramsLogs"
        Effect   = "Allow"
        Action   = ["s3:PutObject", "s3:AbortMultipartUpload"]
        Resource = "${aws_s3_bucket.cluster.arn}/checkpoints/*/program/logs/*"
      },
    ]
  }
}

# For people, who are not made here: outputs to give to whom it may concern.
locals {
  people_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid      = "FindTheController"
        Effect   = "Allow"
        Action   = "ec2:DescribeInstances"
        Resource = "*"
      },
      {
        Sid      = "OpenSessions"
        Effect   = "Allow"
        Action   = "ssm:StartSession"
        Resource = "${local.ec2}:instance/*"
        Condition = {
          StringEquals = { "aws:ResourceTag/tierml:controller-of" = var.cluster }
          BoolIfExists = { "ssm:SessionDocumentAccessCheck" = "true" } # else a session that names no document is a shell
        }
      },
      {
        Sid    = "ForATunnelAndTheToken"
        Effect = "Allow"
        Action = "ssm:StartSession"
        Resource = [
          "${local.arn}:ssm:${var.region}::document/AWS-StartPortForwardingSession",
          "${local.ec2_ssm}:document/${aws_ssm_document.token.name}",
        ]
      },
      {
        Sid      = "EndTheirOwnSessions"
        Effect   = "Allow"
        Action   = ["ssm:TerminateSession", "ssm:ResumeSession"]
        Resource = "${local.arn}:ssm:*:*:session/$${aws:userid}-*"
      },
    ]
  }

  starter_policy = {
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "StartAController"
        Effect    = "Allow"
        Action    = "ec2:RunInstances"
        Resource  = ["${local.ec2}:instance/*", "${local.ec2}:volume/*"]
        Condition = { StringEquals = { "aws:RequestTag/tierml:controller-of" = var.cluster } }
      },
      {
        Sid    = "InOurNetwork"
        Effect = "Allow"
        Action = "ec2:RunInstances"
        Resource = concat(
          [for subnet in aws_subnet.zone : subnet.arn],
          [aws_security_group.controller.arn, "${local.ec2}:network-interface/*", "${local.arn}:ec2:${var.region}::image/*"],
        )
      },
      {
        Sid       = "TagIt"
        Effect    = "Allow"
        Action    = "ec2:CreateTags"
        Resource  = ["${local.ec2}:instance/*", "${local.ec2}:volume/*"]
        Condition = { StringEquals = { "ec2:CreateAction" = "RunInstances" } }
      },
      {
        Sid       = "GiveItItsRole"
        Effect    = "Allow"
        Action    = "iam:PassRole"
        Resource  = aws_iam_role.controller.arn
        Condition = { StringEquals = { "iam:PassedToService" = "ec2.amazonaws.com" } }
      },
      {
        Sid       = "EndIt"
        Effect    = "Allow"
        Action    = "ec2:TerminateInstances"
        Resource  = "${local.ec2}:instance/*"
        Condition = { StringEquals = { "aws:ResourceTag/tierml:controller-of" = var.cluster } }
      },
    ]
  }
}

resource "aws_iam_role" "controller" {
  name_prefix        = "${var.cluster}-ctl-"
  description        = "TierML controller of ${var.cluster}"
  assume_role_policy = local.assume_by_ec2
}

resource "aws_iam_role_policy" "controller" {
  name   = "controller"
  role   = aws_iam_role.controller.id
  policy = jsonencode(local.controller_policy)
}

# People reach the job server by Session Manager: no port is open, no key is kept, and each session is on record.
# Not AmazonSSMManagedInstanceCore, which also reads every parameter of the account.
resource "aws_iam_role_policy" "sessions" {
  name = "sessions"
  role = aws_iam_role.controller.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid    = "TakeSessions"
      Effect = "Allow"
      Action = [
        "ssm:UpdateInstanceInformation", "ssmmessages:CreateControlChannel", "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel", "ssmmessages:OpenDataChannel",
      ]
      Resource = "*"
    }]
  })
}

# The one command that people run on the job server.
resource "aws_ssm_document" "token" {
  name            = "tierml-token-${var.cluster}"
  document_type   = "Session"
  document_format = "JSON"
  content = jsonencode({
    schemaVersion = "1.0"
    description   = "Prints the token of TierML's controller"
    sessionType   = "InteractiveCommands"
    properties    = { linux = { commands = "sudo cat /var/lib/tierml/token", runAsElevated = false } }
  })
}

resource "aws_iam_instance_profile" "controller" {
  name_prefix = "${var.cluster}-ctl-"
  role        = aws_iam_role.controller.name
}

resource "aws_iam_role" "machines" {
  name_prefix        = "${var.cluster}-mch-"
  description        = "TierML machines of ${var.cluster}"
  assume_role_policy = local.assume_by_ec2
}

resource "aws_iam_role_policy" "machines" {
  name   = "machines"
  role   = aws_iam_role.machines.id
  policy = jsonencode(local.machines_policy)
}

resource "aws_iam_instance_profile" "machines" {
  name_prefix = "${var.cluster}-mch-"
  role        = aws_iam_role.machines.name
}

resource "aws_iam_role" "store" {
  name_prefix = "${var.cluster}-sto-"
  description = "Objects of the runs of ${var.cluster}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { AWS = aws_iam_role.controller.arn }
    }]
  })
}

resource "aws_iam_role_policy" "store" {
  name   = "store"
  role   = aws_iam_role.store.id
  policy = jsonencode(local.store_policy)
}
