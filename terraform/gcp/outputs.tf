output "controller" {
  description = "The name of the job server's machine: gcloud compute ssh --tunnel-through-iap NAME. Null without one."
  value       = one(google_compute_instance.controller[*].name)
}

output "bucket" {
  description = "Where training data goes (data/), and where checkpoints and models will be (checkpoints/)."
  value       = google_storage_bucket.cluster.name
}

output "settings" {
  description = "What a job file needs to know of this installation, and where its job server is; `tierml init --settings` takes it."
  value       = yamlencode({ gce = merge(local.gce_settings, { controller = local.controller_settings }) })
}
