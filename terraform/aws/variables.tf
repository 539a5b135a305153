variable "region" {
  description = "The region in which everything is made, such as us-west-2."
  type        = string
}

variable "zones" {
  description = "Names of the zones in which machines may be bought; each gets a subnet. More zones are more spot pools."
  type        = list(string)

  validation {
    condition     = length(var.zones) > 0 && length(var.zones) <= 8 && length(distinct(var.zones)) == length(var.zones)
    error_message = "Name one to eight zones, each once, such as [\"us-west-2a\", \"us-west-2b\"]."
  }

  validation {
    condition     = alltrue([for zone in var.zones : startswith(zone, var.region)])
    error_message = "Each zone must lie in the region: ${var.region}a, ${var.region}b, ..."
  }
}

variable "cluster" {
  description = "Sets these machines apart from all others of the account: the value of the tag tierml:cluster that the job server gives them. No other installation of the account may have it."
  type        = string

  validation {
    condition     = can(regex("^[a-z0-9][a-z0-9-]{0,30}$", var.cluster))
    error_message = "A cluster's name has up to 31 small letters, digits and dashes."
  }
}

variable "owner" {
  description = "Whom to ask about these machines: the value of the tag tierml:owner."
  type        = string
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
  description = "The job server's instance type. It decides, and serves no parameters: a small one will do."
  type        = string
  default     = "t3.small"
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

variable "controller_disk_gib" {
  description = "Size of the job server's disk, which holds the runs' journals and splits."
  type        = number
  default     = 30
}

variable "vpc_cidr" {
  description = "Addresses of the network that is made."
  type        = string
  default     = "10.87.0.0/16"

  validation {
    condition     = can(cidrsubnet(var.vpc_cidr, 4, 7))
    error_message = "Give an IPv4 range that can be cut into 16 subnets, such as 10.87.0.0/16."
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
