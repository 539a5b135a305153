output "controller" {
  description = "How to reach the controller."
  value       = "gcloud compute ssh --tunnel-through-iap --project ${var.project} --zone ${var.controller_zone} ${google_compute_instance.controller.name}"
}

output "url" {
  description = "The controller's address while the tunnel is open: tierml run --controller URL JOB.yaml"
  value       = "http://localhost:7071"
}

output "tunnel" {
  description = "Opens the tunnel to the controller."
  value       = "gcloud compute ssh --tunnel-through-iap --project ${var.project} --zone ${var.controller_zone} ${google_compute_instance.controller.name} -- -N -L 7071:localhost:7071"
}

output "token" {
  description = "Prints the controller's token, for ~/.config/tierml/token (mode 0600)."
  value       = "gcloud compute ssh --tunnel-through-iap --project ${var.project} --zone ${var.controller_zone} ${google_compute_instance.controller.name} --command 'sudo cat /var/lib/tierml/token'"
}

output "bucket" {
  description = "Where training data goes (data/), and where checkpoints and models will be (checkpoints/)."
  value       = google_storage_bucket.cluster.name
}

output "settings" {
  description = "What a job file needs to know of this installation; the controller has it in /etc/tierml/installation.yaml."
  value       = yamlencode({ gce = local.gce_settings })
}
