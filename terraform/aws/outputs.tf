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

output "url" {
  description = "The controller's address while the tunnel is open: tierml run --controller URL JOB.yaml"
  value       = "http://localhost:7071"
}

output "tunnel" {
  description = "Opens the tunnel to the controller."
  value       = "aws ssm start-session --region ${var.region} --target ${aws_instance.controller.id} --document-name AWS-StartPortForwardingSession --parameters portNumber=7071,localPortNumber=7071"
}

output "token" {
  description = "Prints the controller's token, for ~/.config/tierml/token (mode 0600)."
  value       = "aws ssm start-session --region ${var.region} --target ${aws_instance.controller.id} --document-name AWS-StartInteractiveCommand --parameters 'command=[\"sudo cat /var/lib/tierml/token\"]'"
}
