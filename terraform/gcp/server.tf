locals {
  program_url    = "gs://${google_storage_bucket.cluster.name}/${google_storage_bucket_object.program.name}"
  program_sha256 = filesha256(var.binary)

  # What a job needs to know of this installation.
  gce_settings = {
    project         = var.project
    region          = var.region
    cluster         = var.cluster
    owner           = var.owner
    image           = var.image
    subnetwork      = google_compute_subnetwork.cluster.id
    service_account = google_service_account.machines.email
    store_tokens    = true
    program         = { url = local.program_url, sha256 = local.program_sha256 }
    checkpoints     = "gs://${google_storage_bucket.cluster.name}/checkpoints"
  }

  # And where it is run from elsewhere: on this job server, or on one that is started as this account.
  controller_settings = merge(
    {
      role = google_service_account.controller.email
      zone = var.controller_zone
      type = var.controller_type
      disk = "${var.controller_disk_gb}GB"
    },
    var.controller ? { instance = google_compute_instance.controller[0].name } : {},
  )
}

# The machine of the job server; without one, `tierml server start JOB.yaml` makes it when somebody wants it.
resource "google_compute_instance" "controller" {
  count = var.controller ? 1 : 0

  name         = "controller-of-${var.cluster}" # must not begin as the names of the machines do
  machine_type = var.controller_type
  zone         = var.controller_zone

  # By these `tierml run` finds it.
  labels = { "tierml-controller-of" = var.cluster, "tierml-role" = "controller", "tierml-owner" = var.owner }

  # Spot machines come and go; this one is on demand, and does not go by mistake.
  deletion_protection = true

  boot_disk {
    initialize_params {
      image = var.image
      size  = var.controller_disk_gb
    }
  }

  network_interface {
    subnetwork = google_compute_subnetwork.cluster.id
  }

  service_account {
    email  = google_service_account.controller.email
    scopes = ["cloud-platform"] # what it may do is said by its roles
  }

  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }

  metadata = {
    enable-oslogin         = "TRUE"
    block-project-ssh-keys = "TRUE"
    startup-script = templatefile("${path.module}/server.sh.tftpl", {
      bucket         = google_storage_bucket.cluster.name
      object         = urlencode(google_storage_bucket_object.program.name)
      program_sha256 = local.program_sha256
      settings       = yamlencode({ gce = local.gce_settings })
      flags          = var.controller_flags
      units          = { for name in ["tierml-server.service", "tierml-expired.service", "tierml-expired.timer"] : name => file("${path.module}/../${name}") }
    })
  }

  lifecycle {
    ignore_changes = [boot_disk[0].initialize_params[0].image]
  }

  depends_on = [google_storage_bucket_iam_member.controller]
}
