# What the module makes, with made-up answers of AWS: nothing is called. Run by `make test-terraform`.

mock_provider "aws" {
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_ssm_parameter" {
    defaults = { value = "ami-0123456789abcdef0" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/machines" }
  }
  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::tierml-bucket", bucket = "tierml-bucket" }
  }
}

variables {
  region           = "us-west-2"
  zones            = ["us-west-2a", "us-west-2b"]
  cluster          = "ours"
  owner            = "somebody"
  binary           = "./versions.tf" # any file: its content does not matter here
  controller_flags = { scheduler = "feedback", max-running = "8" }
}

run "nobody_is_let_in" {
  assert {
    condition = alltrue([
      for rule in [aws_vpc_security_group_ingress_rule.control, aws_vpc_security_group_ingress_rule.data] :
      rule.referenced_security_group_id == aws_security_group.machines.id
    ])
    error_message = "only the cluster's own machines may reach the job server and each other"
  }
  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.cluster.block_public_acls, aws_s3_bucket_public_access_block.cluster.block_public_policy,
      aws_s3_bucket_public_access_block.cluster.ignore_public_acls, aws_s3_bucket_public_access_block.cluster.restrict_public_buckets,
    ])
    error_message = "the bucket must be closed to the public"
  }
}

run "controller" {
  assert {
    condition     = aws_instance.controller[0].metadata_options[0].http_tokens == "required" && aws_instance.controller[0].metadata_options[0].http_put_response_hop_limit == 1
    error_message = "metadata must be asked for with a session's token (IMDSv2), and by the machine itself"
  }
  assert {
    condition     = aws_instance.controller[0].root_block_device[0].encrypted
    error_message = "disks are encrypted"
  }
  assert {
    condition     = length(aws_instance.controller[0].instance_market_options) == 0
    error_message = "the job server is an on-demand instance"
  }
  assert {
    condition     = !contains(keys(aws_instance.controller[0].tags), "tierml:cluster")
    error_message = "whatever carries the cluster's tag may be ended by the job server, which must not end itself"
  }
  assert {
    condition     = aws_instance.controller[0].tags["tierml:controller-of"] == var.cluster && aws_instance.controller[0].tags["tierml:role"] == "controller"
    error_message = "tierml run finds the job server by its tags"
  }
  assert {
    condition     = strcontains(aws_instance.controller[0].user_data, filesha256(var.binary))
    error_message = "the job server must check what it runs"
  }
}

run "the_controller_may_do_what_it_must_and_nothing_else" {
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement :
      alltrue([for action in flatten([statement.Action]) : !strcontains(action, "*")])
    ])
    error_message = "each action is named"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement :
      alltrue([
        for action in flatten([statement.Action]) : startswith(action, "ec2:Describe") || startswith(action, "ec2:Get")
        || contains(["pricing:GetProducts", "servicequotas:GetServiceQuota"], action)
      ])
      if contains(flatten([statement.Resource]), "*")
    ])
    error_message = "only calls that look, and that cannot be narrowed, are allowed on everything"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement :
      statement.Condition.StringEquals["aws:ResourceTag/tierml:cluster"] == var.cluster
      if contains(flatten([statement.Action]), "ec2:TerminateInstances")
    ])
    error_message = "it ends only machines with the cluster's tag"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement :
      statement.Condition.StringEquals["aws:RequestTag/tierml:cluster"] == var.cluster
      if anytrue([for action in flatten([statement.Action]) : contains(["ec2:RunInstances", "ec2:CreateFleet", "ec2:CreateLaunchTemplate"], action)]) &&
      anytrue([for resource in flatten([statement.Resource]) : endswith(resource, ":instance/*") || endswith(resource, ":fleet/*")])
    ])
    error_message = "it buys only machines with the cluster's tag, one by one or as fleets"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement :
      try(statement.Condition.StringEquals["aws:RequestTag/tierml:cluster"], "") == var.cluster && flatten([statement.Action]) == ["ec2:CreateLaunchTemplate"] ||
      try(statement.Condition.StringEquals["aws:ResourceTag/tierml:cluster"], "") == var.cluster
      if anytrue([for resource in flatten([statement.Resource]) : endswith(resource, ":launch-template/*")])
    ])
    error_message = "it makes launch templates with the cluster's tag, and uses and deletes no others"
  }
  assert {
    condition = alltrue([
      for action in ["ec2:CreateFleet", "ec2:CreateLaunchTemplate", "ec2:DeleteLaunchTemplate", "ec2:DescribeLaunchTemplates"] :
      anytrue([for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement : contains(flatten([statement.Action]), action)])
    ])
    error_message = "it may buy fleets, and tidy up after them"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement :
      try(toset(statement.Condition.StringEquals["ec2:CreateAction"]), toset([])) == toset(["RunInstances", "CreateFleet", "CreateLaunchTemplate"]) ||
      try(statement.Condition.StringEquals["aws:ResourceTag/tierml:cluster"], "") == var.cluster &&
      try(toset(statement.Condition["ForAllValues:StringEquals"]["aws:TagKeys"]), toset([])) == toset(["tierml:expires", "tierml:generation"])
      if contains(flatten([statement.Action]), "ec2:CreateTags")
    ])
    error_message = "it tags what it buys and renews the leases of its own, and cannot put its tag on the machines of others"
  }
  assert {
    condition = length([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement : statement
      if contains(flatten([statement.Action]), "ssm:GetParameters") && alltrue([for resource in flatten([statement.Resource]) : endswith(resource, "::parameter/aws/service/*")])
    ]) == 1
    error_message = "it finds images that Amazon names, and reads no parameters of the account"
  }
  assert {
    condition = length(setsubtract(["pricing:GetProducts", "servicequotas:GetServiceQuota"], flatten([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement : statement.Action
    ]))) == 0
    error_message = "it reads the price list and the account's quotas"
  }
  assert {
    condition = one([
      for statement in jsondecode(aws_iam_role_policy.controller.policy).Statement :
      statement.Resource if contains(flatten([statement.Action]), "iam:PassRole")
    ]) == aws_iam_role.machines.arn
    error_message = "it gives machines their role, and no other"
  }
}

run "machines_may_use_storage_only" {
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.store.policy).Statement :
      alltrue([for action in flatten([statement.Action]) : startswith(action, "s3:") && !strcontains(action, "*")])
      && !contains(flatten([statement.Resource]), "*")
    ])
    error_message = "machines reach the bucket and nothing else"
  }
  assert {
    condition = !anytrue([
      for statement in jsondecode(aws_iam_role_policy.store.policy).Statement :
      contains(flatten([statement.Action]), "s3:PutObject") && anytrue([
        for resource in flatten([statement.Resource]) : !anytrue([
          for folder in ["clock-*/*.rows", "program/state/*", "program/logs/*"] : endswith(resource, "/checkpoints/*/${folder}")
        ])
      ])
    ])
    error_message = "machines write parts of checkpoints and programs' state and logs, never a training's manifest, splits, or the program that others will run"
  }
  assert {
    condition = !anytrue([
      for statement in jsondecode(aws_iam_role_policy.store.policy).Statement :
      contains(flatten([statement.Action]), "s3:DeleteObject") && statement.Resource != "${aws_s3_bucket.cluster.arn}/checkpoints/*/program/state/*"
    ])
    error_message = "machines remove nothing but programs' old state"
  }
}

run "the_machines_own_role_reads_the_program_only" {
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.machines.policy).Statement :
      flatten([statement.Action]) == ["s3:GetObject"] && statement.Resource == "${aws_s3_bucket.cluster.arn}/program/*"
    ])
    error_message = "programs can use the machines' own role, so it must be good for nothing but the program"
  }
  assert {
    condition     = jsondecode(aws_iam_role.store.assume_role_policy).Statement[0].Principal.AWS == aws_iam_role.controller.arn
    error_message = "the job server alone gives runs their store"
  }
}

run "settings" {
  assert {
    condition     = yamldecode(output.settings).ec2.subnets["us-west-2b"] == aws_subnet.zone["us-west-2b"].id
    error_message = "a job must find the subnet of each zone"
  }
  assert {
    condition     = yamldecode(output.settings).ec2.program.sha256 == filesha256(var.binary)
    error_message = "machines must be able to check the program that they fetch"
  }
}

run "zone_of_another_region" {
  command = plan
  variables {
    zones = ["us-east-1a"]
  }
  expect_failures = [var.zones]
}

run "name_that_cannot_be_a_tag" {
  command = plan
  variables {
    cluster = "Our cluster!"
  }
  expect_failures = [var.cluster]
}

run "the_controller_is_a_service" {
  command = apply
  assert {
    condition     = strcontains(aws_instance.controller[0].user_data, "server.env <<'END_OF_FLAGS'\nTIERML_SERVER_MAX_RUNNING=\"8\"\nTIERML_SERVER_SCHEDULER=\"feedback\"\nEND_OF_FLAGS\n")
    error_message = "flags of the job server must reach its service"
  }
  assert {
    condition = alltrue([
      strcontains(aws_instance.controller[0].user_data, "ExecStart=/usr/local/bin/tierml server --directory /var/lib/tierml"),
      strcontains(aws_instance.controller[0].user_data, "KillMode=process"),
      strcontains(aws_instance.controller[0].user_data, "systemctl enable --now tierml-server tierml-expired.timer\n"),
    ])
    error_message = "the job server must run as a service whose end ends no job"
  }
  assert {
    condition = alltrue([
      for words in ["cat >/etc/systemd/system/tierml-expired.service <<", "ExecStart=/usr/local/bin/tierml down --expired -y /etc/tierml/installation.yaml\n",
      "cat >/etc/systemd/system/tierml-expired.timer <<", "OnUnitActiveSec=15min\n"] : strcontains(aws_instance.controller[0].user_data, words)
    ])
    error_message = "machines whose lease is over must end also while the job server does not run"
  }
  assert {
    condition     = !strcontains(aws_instance.controller[0].user_data, "--listen")
    error_message = "the job server is reached on its loopback interface, through a tunnel"
  }
  assert {
    condition     = yamldecode(output.settings).ec2.controller.instance == aws_instance.controller[0].id && output.controller == aws_instance.controller[0].id
    error_message = "a job file must say which job server it is for"
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
    condition     = length(aws_instance.controller) == 0 && output.controller == null
    error_message = "none is made"
  }
  assert {
    condition = alltrue([
      !contains(keys(yamldecode(output.settings).ec2.controller), "instance"),
      yamldecode(output.settings).ec2.controller.role == aws_iam_instance_profile.controller.name,
      yamldecode(output.settings).ec2.controller.network == [aws_security_group.controller.id],
    ])
    error_message = "the settings say what a job server that is started is made of"
  }
}

run "people_may_do_what_they_must_and_nothing_else" {
  command = apply
  assert {
    condition = alltrue([
      for statement in concat(jsondecode(output.people_policy).Statement, jsondecode(output.starter_policy).Statement) :
      alltrue([for action in flatten([statement.Action]) : !strcontains(action, "*")])
      && (!contains(flatten([statement.Resource]), "*") || statement.Action == "ec2:DescribeInstances")
    ])
    error_message = "each action is named, and only looking is allowed on everything"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(output.people_policy).Statement :
      statement.Condition.StringEquals["aws:ResourceTag/tierml:controller-of"] == var.cluster
      if contains(flatten([statement.Action]), "ssm:StartSession") && anytrue([for resource in flatten([statement.Resource]) : endswith(resource, ":instance/*")])
    ])
    error_message = "sessions are opened to the cluster's job servers only"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(output.people_policy).Statement : statement.Condition.BoolIfExists["ssm:SessionDocumentAccessCheck"] == "true"
      if contains(flatten([statement.Action]), "ssm:StartSession") && anytrue([for resource in flatten([statement.Resource]) : endswith(resource, ":instance/*")])
    ])
    error_message = "a session without a document would be a shell"
  }
  assert {
    condition = !strcontains(output.people_policy, "AWS-StartInteractiveCommand") && alltrue([
      jsondecode(aws_ssm_document.token.content).properties.linux.commands == "sudo cat /var/lib/tierml/token",
      aws_ssm_document.token.name == "tierml-token-${var.cluster}", aws_ssm_document.token.document_type == "Session",
    ])
    error_message = "people run one command on the job server: the one that prints its token"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(aws_iam_role_policy.sessions.policy).Statement :
      alltrue([for action in flatten([statement.Action]) : startswith(action, "ssmmessages:") || action == "ssm:UpdateInstanceInformation"])
    ])
    error_message = "the job server's machine takes sessions and reads no parameters"
  }
  assert {
    condition = alltrue([
      for statement in jsondecode(output.starter_policy).Statement :
      try(statement.Condition.StringEquals["aws:ResourceTag/tierml:controller-of"], statement.Condition.StringEquals["aws:RequestTag/tierml:controller-of"], "") == var.cluster
      if anytrue([for action in flatten([statement.Action]) : contains(["ec2:TerminateInstances", "ec2:RunInstances"], action)])
      && anytrue([for resource in flatten([statement.Resource]) : endswith(resource, ":instance/*")])
    ])
    error_message = "only job servers of this cluster are started and ended"
  }
}
