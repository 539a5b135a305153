output "controller" {
  description = "The instance id of the job server's machine: aws ssm start-session --target ID. Null without one."
  value       = one(aws_instance.controller[*].id)
}

output "bucket" {
  description = "Where training data goes (data/), and where checkpoints and models will be (checkpoints/)."
  value       = aws_s3_bucket.cluster.bucket
}

output "settings" {
  description = "What a job file needs to know of this installation, and where its job server is; `tierml init --settings` takes it."
  value       = yamlencode({ ec2 = merge(local.ec2_settings, { controller = local.controller_settings }) })
}

output "installation" {
  description = "Where the settings are kept: a job file needs no more than ec2: {installation: ADDRESS}."
  value       = "s3://${aws_s3_bucket.cluster.bucket}/${aws_s3_object.installation.key}?region=${var.region}"
}

output "people_policy" {
  description = "What somebody must be allowed who runs jobs on the job server from a laptop: to find it, and to open a session to it."
  value       = jsonencode(local.people_policy)
}

output "starter_policy" {
  description = "What somebody must be allowed beside that to start and end a job server: tierml server start, tierml server stop."
  value       = jsonencode(local.starter_policy)
}
