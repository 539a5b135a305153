output "controller" {
  description = "The controller's instance id: aws ssm start-session --target ID. Null without one."
  value       = one(aws_instance.controller[*].id)
}

output "bucket" {
  description = "Where training data goes (data/), and where checkpoints and models will be (checkpoints/)."
  value       = aws_s3_bucket.cluster.bucket
}

output "settings" {
  description = "What a job file needs to know of this installation, and where its controller is; `tierml init --settings` takes it."
  value       = yamlencode({ ec2 = merge(local.ec2_settings, { controller = local.controller_settings }) })
}

output "people_policy" {
  description = "What somebody must be allowed who runs jobs on the controller from a laptop: to find it, and to open a session to it."
  value       = jsonencode(local.people_policy)
}

output "starter_policy" {
  description = "What somebody must be allowed beside that to start and end a controller: tierml controller start, tierml controller stop."
  value       = jsonencode(local.starter_policy)
}
