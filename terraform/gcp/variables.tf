variable "project" {
  description = "Id of the project in which everything is made. The APIs compute, iam, iap, cloudresourcemanager, storage, sts and cloudbilling must be on."
  type        = string
}

variable "region" {
  description = "The region in which everything is made, such as us-west1."
  type        = string
}

variable "controller_zone" {
  description = "The zone of the job server; machines are bought in any zone of the region."
  type        = string

  validation {
    condition     = startswith(var.controller_zone, "${var.region}-")
    error_message = "The zone must lie in the region: ${var.region}-a, ${var.region}-b, ..."
  }
}

variable "cluster" {
  description = "Sets these machines apart from all others of the project: their names begin with it, and their label tierml-cluster has it. No other installation of the project may have it."
  type        = string

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,18}[a-z0-9]$", var.cluster))
    error_message = "A cluster's name has 2 to 20 small letters, digits and dashes, and begins with a letter."
  }
}

variable "owner" {
  description = "Whom to ask about these machines: the value of the label tierml-owner (small letters, digits, dashes)."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9_-]{1,63}$", var.owner))
    error_message = "Google Cloud's labels hold small letters, digits, dashes and underscores only."
  }
}

variable "binary" {
  description = "Path of the program tierml for the job server and the machines: bin/tierml, built for Linux on x86-64."
  type        = string
}

variable "controller" {
  description = "Whether to make the job server's machine now. Without, `tierml server start JOB.yaml` makes one when somebody wants it."
  type        = bool
  default     = true
}

variable "controller_type" {
  description = "The job server's machine type. It decides, and serves no parameters: a small one will do."
  type        = string
  default     = "e2-small"
}

variable "controller_flags" {
  description = "Flags of `tierml server` without their dashes, such as { scheduler = \"feedback\", slots = \"16\" }."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for name, value in var.controller_flags : can(regex("^[a-z][a-z0-9-]*$", name)) && can(regex("^[^\n\"\\\\$`]*$", value))])
    error_message = "Write flags such as scheduler or max-running, and values in one line without quotes, backslashes and dollars."
  }
  validation {
    condition     = alltrue([for name in ["directory", "listen"] : !contains(keys(var.controller_flags), name)])
    error_message = "The job server keeps its runs in /var/lib/tierml and listens on loopback."
  }
}

variable "controller_disk_gb" {
  description = "Size of the job server's disk, which holds the runs' journals and splits."
  type        = number
  default     = 30
}

variable "image" {
  description = "The image of the job server and of the machines."
  type        = string
  default     = "projects/debian-cloud/global/images/family/debian-12"
}

variable "subnet_cidr" {
  description = "Addresses of the subnetwork that is made."
  type        = string
  default     = "10.88.0.0/20"

  validation {
    condition     = can(cidrnetmask(var.subnet_cidr))
    error_message = "Give an IPv4 range such as 10.88.0.0/20."
  }
}

variable "keep_checkpoints_days" {
  description = "After how many days checkpoints are deleted from the bucket."
  type        = number
  default     = 30
}

variable "delete_bucket_with_contents" {
  description = "Whether terraform destroy may delete the bucket with the checkpoints and models that are in it."
  type        = bool
  default     = false
}
