output "controller" {
  description = "The controller's instance id: aws ssm start-session --target ID"
  value       = aws_instance.controller.id
}

output "bucket" {
  description = "Where training data goes (data/), and where checkpoints and models will be (checkpoints/)."
  value       = aws_s3_bucket.cluster.bucket
}

output "settings" {
  description = "What a job file needs to know of this installation; the controller has it in /etc/tierml/installation.yaml."
  value       = yamlencode({ ec2 = local.ec2_settings })
}
