# What the module makes, with made-up answers of Google Cloud: nothing is called. Run by `make test-terraform`.

mock_provider "google" {
  mock_resource "google_project_iam_custom_role" {
    defaults = { id = "projects/some-project/roles/role" }
  }
  mock_resource "google_service_account" {
    defaults = { name = "projects/some-project/serviceAccounts/a@some-project.iam.gserviceaccount.com" }
  }
}

variables {
  project          = "some-project"
  region           = "us-west1"
  controller_zone  = "us-west1-b"
  cluster          = "ours"
  owner            = "somebody"
  binary           = "./versions.tf" # any file: its content does not matter here
  controller_flags = { scheduler = "feedback", max-running = "8" }
}

run "nobody_is_let_in" {
  assert {
    condition     = length(google_compute_firewall.machines.source_service_accounts) == 1 && length(google_compute_firewall.machines.source_tags) == 0
    error_message = "only the cluster's own machines may reach the job server and each other"
  }
  assert {
    condition     = google_compute_firewall.people.source_ranges == toset(["35.235.240.0/20"])
    error_message = "people come through Identity-Aware Proxy"
  }
  assert {
    condition     = length(google_compute_instance.controller[0].network_interface[0].access_config) == 0
    error_message = "the job server has no public address"
  }
  assert {
    condition     = google_storage_bucket.cluster.public_access_prevention == "enforced" && google_storage_bucket.cluster.uniform_bucket_level_access
    error_message = "the bucket must be closed to the public"
  }
}

run "controller" {
  assert {
    condition     = length(google_compute_instance.controller[0].scheduling) == 0
    error_message = "the job server is an on-demand machine"
  }
  assert {
    condition     = !startswith(google_compute_instance.controller[0].name, "${var.cluster}-")
    error_message = "whatever has such a name may be ended by the job server, which must not end itself"
  }
  assert {
    condition     = strcontains(google_compute_instance.controller[0].metadata["startup-script"], filesha256(var.binary))
    error_message = "the job server must check what it runs"
  }
}

run "the_controller_may_do_what_it_must_and_nothing_else" {
  assert {
    condition = alltrue([
      for permission in setunion(
        google_project_iam_custom_role.look.permissions, google_project_iam_custom_role.buy.permissions,
        google_project_iam_custom_role.network.permissions,
      ) : !strcontains(permission, "*")
    ])
    error_message = "each permission is named"
  }
  assert {
    condition     = alltrue([for permission in google_project_iam_custom_role.look.permissions : can(regex("[.](get|list)$|^compute[.]advice[.]", permission))])
    error_message = "on the whole project it may only look"
  }
  assert {
    condition     = strcontains(google_project_iam_member.buy.condition[0].expression, "startsWith(\"${var.cluster}-\")")
    error_message = "it buys and ends only machines that bear the cluster's name"
  }
}

run "the_machines_own_account_reads_the_program_only" {
  assert {
    condition     = google_storage_bucket_iam_member.machines_read.role == "roles/storage.objectViewer"
    error_message = "machines read the program"
  }
  assert {
    condition     = endswith(google_storage_bucket_iam_member.machines_read.condition[0].expression, "/objects/program/\")")
    error_message = "programs can use the machines' account, so it must be good for nothing but the program"
  }
  assert {
    condition     = yamldecode(output.settings).gce.store_tokens
    error_message = "each run needs tokens for its own objects"
  }
}

run "settings" {
  assert {
    condition = alltrue([
      yamldecode(output.settings).gce.project == var.project,
      yamldecode(output.settings).gce.subnetwork == google_compute_subnetwork.cluster.id,
      yamldecode(output.settings).gce.service_account == google_service_account.machines.email,
    ])
    error_message = "machines must be in the module's network and act as the machines' account"
  }
  assert {
    condition     = startswith(yamldecode(output.settings).gce.checkpoints, "gs://${google_storage_bucket.cluster.name}/checkpoints")
    error_message = "checkpoints go where machines may write"
  }
  assert {
    condition     = yamldecode(output.settings).gce.program.sha256 == filesha256(var.binary)
    error_message = "machines must be able to check the program that they fetch"
  }
}

run "zone_of_another_region" {
  command = plan
  variables {
    controller_zone = "europe-west1-b"
  }
  expect_failures = [var.controller_zone]
}

run "owner_that_cannot_be_a_label" {
  command = plan
  variables {
    owner = "somebody@example.org"
  }
  expect_failures = [var.owner]
}

run "the_controller_is_a_service" {
  command = apply
  assert {
    condition     = strcontains(google_compute_instance.controller[0].metadata["startup-script"], "server.env <<'END_OF_FLAGS'\nTIERML_SERVER_MAX_RUNNING=\"8\"\nTIERML_SERVER_SCHEDULER=\"feedback\"\nEND_OF_FLAGS\n")
    error_message = "flags of the job server must reach its service"
  }
  assert {
    condition = alltrue([
      strcontains(google_compute_instance.controller[0].metadata["startup-script"], "ExecStart=/usr/local/bin/tierml server --directory /var/lib/tierml"),
      strcontains(google_compute_instance.controller[0].metadata["startup-script"], "KillMode=process"),
      strcontains(google_compute_instance.controller[0].metadata["startup-script"], "systemctl enable --now tierml-server tierml-expired.timer\n"),
    ])
    error_message = "the job server must run as a service whose end ends no job"
  }
  assert {
    condition = alltrue([
      for words in ["cat >/etc/systemd/system/tierml-expired.service <<", "ExecStart=/usr/local/bin/tierml down --expired -y /etc/tierml/installation.yaml\n",
      "cat >/etc/systemd/system/tierml-expired.timer <<", "OnUnitActiveSec=15min\n"] : strcontains(google_compute_instance.controller[0].metadata["startup-script"], words)
    ])
    error_message = "machines whose lease is over must end also while the job server does not run"
  }
  assert {
    condition     = !strcontains(google_compute_instance.controller[0].metadata["startup-script"], "--listen")
    error_message = "the job server is reached on its loopback interface, through a tunnel"
  }
  assert {
    condition = alltrue([
      yamldecode(output.settings).gce.controller.instance == google_compute_instance.controller[0].name,
      yamldecode(output.settings).gce.controller.zone == var.controller_zone,
      google_compute_instance.controller[0].labels["tierml-controller-of"] == var.cluster,
    ])
    error_message = "tierml run must find the job server"
  }
}

run "a_flag_that_breaks_the_script" {
  command = plan
  variables {
    controller_flags = { scheduler = "feedback\nEND_OF_FLAGS" }
  }
  expect_failures = [var.controller_flags]
}

run "a_flag_that_opens_the_controller" {
  command = plan
  variables {
    controller_flags = { listen = "0.0.0.0:7071" }
  }
  expect_failures = [var.controller_flags]
}

run "without_a_controller" {
  command = apply
  variables {
    controller = false
  }
  assert {
    condition     = length(google_compute_instance.controller) == 0 && output.controller == null
    error_message = "none is made"
  }
  assert {
    condition = alltrue([
      !contains(keys(yamldecode(output.settings).gce.controller), "instance"),
      yamldecode(output.settings).gce.controller.role == google_service_account.controller.email,
    ])
    error_message = "the settings say what a job server that is started is made of"
  }
}
