output "controller" {
  description = "How to reach the controller."
  value       = "gcloud compute ssh --tunnel-through-iap --project ${var.project} --zone ${var.controller_zone} ${google_compute_instance.controller.name}"
}

output "bucket" {
  description = "Where training data goes (data/), and where checkpoints and models will be (checkpoints/)."
  value       = google_storage_bucket.cluster.name
}

output "settings" {
  description = "What a job file needs to know of this installation; the controller has it in /etc/tierml/installation.yaml."
  value       = yamlencode({ gce = local.gce_settings })
}
