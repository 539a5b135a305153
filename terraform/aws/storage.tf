# One bucket for the program, training data, checkpoints and models. Its name must be unique in the whole world.

resource "aws_s3_bucket" "cluster" {
  bucket_prefix = "${var.cluster}-"
  force_destroy = var.delete_bucket_with_contents
}

resource "aws_s3_bucket_public_access_block" "cluster" {
  bucket                  = aws_s3_bucket.cluster.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "cluster" {
  bucket = aws_s3_bucket.cluster.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "cluster" {
  bucket = aws_s3_bucket.cluster.id

  rule {
    id     = "old-checkpoints"
    status = "Enabled"

    filter {
      prefix = "checkpoints/"
    }
    expiration {
      days = var.keep_checkpoints_days
    }
  }

  rule {
    id     = "unfinished-uploads"
    status = "Enabled"

    filter {
      prefix = ""
    }
    abort_incomplete_multipart_upload {
      days_after_initiation = 2
    }
  }
}

# The program is named by its content, so that a machine that was told of one build never gets another.
resource "aws_s3_object" "program" {
  bucket      = aws_s3_bucket.cluster.id
  key         = "program/tierml-${filesha256(var.binary)}"
  source      = var.binary
  source_hash = filesha256(var.binary)
}

# What job files need to know, for whoever may read it.
resource "aws_s3_object" "installation" {
  bucket  = aws_s3_bucket.cluster.id
  key     = "installation.yaml"
  content = yamlencode({ ec2 = merge(local.ec2_settings, { controller = local.controller_settings }) })
}
