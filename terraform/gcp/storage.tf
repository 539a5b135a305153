# One bucket for the program, training data, checkpoints and models. Its name must be unique in the whole world.

resource "google_storage_bucket" "cluster" {
  name                        = "${var.project}-${var.cluster}"
  location                    = var.region
  force_destroy               = var.delete_bucket_with_contents
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"

  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age            = var.keep_checkpoints_days
      matches_prefix = ["checkpoints/"]
    }
  }

  lifecycle_rule {
    action {
      type = "AbortIncompleteMultipartUpload"
    }
    condition {
      age = 2
    }
  }
}

# The program is named by its content, so that a machine that was told of one build never gets another.
resource "google_storage_bucket_object" "program" {
  bucket = google_storage_bucket.cluster.name
  name   = "program/tierml-${filesha256(var.binary)}"
  source = var.binary
}
