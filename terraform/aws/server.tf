# The newest Amazon Linux 2023. A new image does not replace a job server that is at work: see ignore_changes.
data "aws_ssm_parameter" "image" {
  name = "/aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64"
}

locals {
  program_url    = "s3://${aws_s3_bucket.cluster.bucket}/${aws_s3_object.program.key}"
  program_sha256 = filesha256(var.binary)

  # What a job needs to know of this installation.
  ec2_settings = {
    region           = var.region
    cluster          = var.cluster
    owner            = var.owner
    image            = nonsensitive(data.aws_ssm_parameter.image.value)
    subnets          = { for zone, subnet in aws_subnet.zone : zone => subnet.id }
    security_groups  = [aws_security_group.machines.id]
    instance_profile = aws_iam_instance_profile.machines.name
    store_role       = aws_iam_role.store.arn
    program          = { url = local.program_url, sha256 = local.program_sha256 }
    checkpoints      = "s3://${aws_s3_bucket.cluster.bucket}/checkpoints"
  }

  # And where it is run from elsewhere: on this job server, or on one that is started with this role.
  controller_settings = merge(
    {
      role    = aws_iam_instance_profile.controller.name
      network = [aws_security_group.controller.id]
      type    = var.controller_type
      disk    = "${var.controller_disk_gib}GB"
    },
    var.controller ? { instance = aws_instance.controller[0].id } : {},
  )
}

# The machine of the job server; without one, `tierml server start JOB.yaml` makes it when somebody wants it.
resource "aws_instance" "controller" {
  count = var.controller ? 1 : 0

  ami                         = local.ec2_settings.image
  instance_type               = var.controller_type
  subnet_id                   = aws_subnet.zone[var.zones[0]].id
  vpc_security_group_ids      = [aws_security_group.controller.id]
  iam_instance_profile        = aws_iam_instance_profile.controller.name
  user_data_replace_on_change = false
  user_data = templatefile("${path.module}/server.sh.tftpl", {
    region         = var.region
    program_url    = local.program_url
    program_sha256 = local.program_sha256
    settings       = yamlencode({ ec2 = local.ec2_settings })
    flags          = var.controller_flags
    units          = { for name in ["tierml-server.service", "tierml-expired.service", "tierml-expired.timer"] : name => file("${path.module}/../${name}") }
  })
  # By these `tierml run` finds it. Not tierml:cluster: what carries that may be ended by the job server.
  tags = { Name = "${var.cluster}-controller", "tierml:controller-of" = var.cluster, "tierml:role" = "controller", "tierml:owner" = var.owner }

  # Spot machines come and go; this one is on demand, and does not go by mistake.
  disable_api_termination = true

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_type = "gp3"
    volume_size = var.controller_disk_gib
    encrypted   = true
  }

  lifecycle {
    ignore_changes = [ami, user_data]
  }

  depends_on = [aws_iam_role_policy.controller, aws_route_table_association.zone]
}
