terraform {
  required_version = ">= 1.7"

  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 6.0, < 7.0"
    }
  }
}

# Whatever this module makes can be found, and its cost be told, by these tags. It is not the tag of the machines that the
# controller buys (tierml:cluster): the controller may end whatever carries that one, and must not end itself.
provider "aws" {
  region = var.region

  default_tags {
    tags = {
      "tierml:installation" = var.cluster
      "tierml:owner"        = var.owner
    }
  }
}
