# Two service accounts. The job server buys machines, and ends those whose name begins with the cluster's and no others; it
# gives them the account of the machines, and no other. That account reads the program that machines run. All else machines do in the bucket with
# tokens of the job server's account, which it narrows to the objects of their run. Each permission is named.

resource "google_service_account" "controller" {
  account_id   = "${var.cluster}-ctl"
  display_name = "TierML controller of ${var.cluster}"
}

resource "google_service_account" "machines" {
  account_id   = "${var.cluster}-mch"
  display_name = "TierML machines of ${var.cluster}"
}

locals {
  role_suffix = replace(var.cluster, "-", "_") # a role's id has no dashes

  ours = join(" || ", [
    for kind in ["instances", "disks"] :
    "resource.name.extract(\"/${kind}/{name}\").startsWith(\"${var.cluster}-\")"
  ])
}

resource "google_project_iam_custom_role" "look" {
  role_id = "tierml_look_${local.role_suffix}"
  title   = "TierML: look (${var.cluster})"
  permissions = [ # the aggregated list of operations is of all kinds of them
    "compute.advice.capacity",
    "compute.advice.capacityHistory",
    "compute.globalOperations.list",
    "compute.instances.get",
    "compute.instances.list",
    "compute.machineTypes.get",
    "compute.machineTypes.list",
    "compute.regionOperations.list",
    "compute.regions.get",
    "compute.zoneOperations.get",
    "compute.zoneOperations.list",
    "compute.zones.get",
    "compute.zones.list",
  ]
}

resource "google_project_iam_custom_role" "buy" {
  role_id = "tierml_buy_${local.role_suffix}"
  title   = "TierML: buy and end machines (${var.cluster})"
  permissions = [
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.instances.create",
    "compute.instances.delete",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setServiceAccount",
    "compute.instances.setTags",
  ]
}

resource "google_project_iam_member" "look" {
  project = var.project
  role    = google_project_iam_custom_role.look.id
  member  = google_service_account.controller.member
}

resource "google_project_iam_member" "buy" {
  project = var.project
  role    = google_project_iam_custom_role.buy.id
  member  = google_service_account.controller.member

  condition {
    title       = "only ${var.cluster}"
    description = "Machines and disks whose name begins with the cluster's"
    expression  = local.ours
  }
}

resource "google_project_iam_custom_role" "network" {
  role_id     = "tierml_network_${local.role_suffix}"
  title       = "TierML: use the network (${var.cluster})"
  permissions = ["compute.subnetworks.use"]
}

resource "google_compute_subnetwork_iam_member" "network" {
  project    = var.project
  region     = var.region
  subnetwork = google_compute_subnetwork.cluster.name
  role       = google_project_iam_custom_role.network.id
  member     = google_service_account.controller.member
}

resource "google_service_account_iam_member" "machines" {
  service_account_id = google_service_account.machines.name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.controller.member
}

resource "google_storage_bucket_iam_member" "controller" {
  bucket = google_storage_bucket.cluster.name
  role   = "roles/storage.objectUser"
  member = google_service_account.controller.member
}

resource "google_storage_bucket_iam_member" "machines_read" {
  bucket = google_storage_bucket.cluster.name
  role   = "roles/storage.objectViewer"
  member = google_service_account.machines.member

  condition {
    title       = "the program only"
    description = "Programs can use this account, so it must be good for nothing else"
    expression  = "resource.name.startsWith(\"projects/_/buckets/${google_storage_bucket.cluster.name}/objects/program/\")"
  }
}
