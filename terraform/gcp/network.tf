# No machine has a public address: Google's own services, which are all that they need, are reached from within
# (private_ip_google_access), and people reach the job server through Identity-Aware Proxy.

resource "google_compute_network" "cluster" {
  name                    = var.cluster
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "cluster" {
  name                     = var.cluster
  network                  = google_compute_network.cluster.id
  region                   = var.region
  ip_cidr_range            = var.subnet_cidr
  private_ip_google_access = true
}

resource "google_compute_firewall" "machines" {
  name                    = "${var.cluster}-machines"
  description             = "Agents to their controller, workers to parameter servers, servers to backups"
  network                 = google_compute_network.cluster.id
  direction               = "INGRESS"
  source_service_accounts = [google_service_account.machines.email]
  target_service_accounts = [google_service_account.controller.email, google_service_account.machines.email]

  allow {
    protocol = "tcp"
    ports    = ["1024-65535"]
  }
}

resource "google_compute_firewall" "people" {
  name                    = "${var.cluster}-people"
  description             = "SSH to the controller through Identity-Aware Proxy, whose range this is"
  network                 = google_compute_network.cluster.id
  direction               = "INGRESS"
  source_ranges           = ["35.235.240.0/20"]
  target_service_accounts = [google_service_account.controller.email]

  allow {
    protocol = "tcp"
    ports    = ["22"]
  }
}
