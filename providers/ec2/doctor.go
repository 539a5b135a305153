package ec2

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tierml/tierml/config"
	"github.com/tierml/tierml/doctor"
	"github.com/tierml/tierml/market"
	"github.com/tierml/tierml/providers/ec2/api"
	"github.com/tierml/tierml/provisioner"
)

// doctorAPI is the part of the API that the doctor uses.
type doctorAPI interface {
	May(ctx context.Context, action string) error
	MayTerminate(context.Context, provisioner.InstanceID) error
	Try(context.Context, provisioner.Request) error
	TryFleet(context.Context, provisioner.Request) (api.FleetRights, error)
	Image(context.Context) (api.Image, error)
	Subnets(context.Context) ([]api.Subnet, error)
	SecurityGroups(context.Context) ([]api.SecurityGroup, error)
	Quota(ctx context.Context, endpoint, code string) (float64, error)
	PriceHistory(context.Context, api.PriceQuery, func(int)) (map[market.Pool][]market.PricePoint, error)
	Types(ctx context.Context, names ...string) ([]market.InstanceType, error)
	OnDemand(ctx context.Context, names ...string) (found []market.InstanceType, missing []string, err error)
	Holdings(context.Context) ([]provisioner.Holding, error)
}

const (
	roleAdvice        = "let the role do it: terraform/aws has the policy"
	credentialsAdvice = "give credentials as to the AWS command line (AWS_PROFILE, aws configure, a machine's role); aws sts get-caller-identity shows whose they are"
)

// checks returns the checks of a job with cloud: ec2. The account is opened at the first lookup, as that needs credentials.
func checks(job *config.Job, connect func(context.Context) (doctorAPI, error)) []doctor.Check {
	var account doctorAPI
	e := blockOf(job)
	with := func(name string, look func(context.Context) (string, error)) doctor.Check {
		return doctor.Check{Name: name, Needs: "credentials", Look: look}
	}
	var types []string
	for _, m := range job.Resources.AnyOf {
		if m.Type != "" {
			types = append(types, m.Type)
		}
	}
	if job.Reliable.Type != "" {
		types = append(types, job.Reliable.Type)
	}
	known := map[string]market.InstanceType{}
	checks := []doctor.Check{
		{Name: "credentials", Look: func(ctx context.Context) (found string, err error) {
			if account, err = connect(ctx); err != nil {
				return "", doctor.Denied(err, credentialsAdvice)
			}
			if err := account.May(ctx, "DescribeInstances"); err != nil {
				return "", doctor.Denied(err, credentialsAdvice+"; "+roleAdvice)
			}
			return "taken by EC2 in " + e.Region, nil
		}},
		with("permissions", func(ctx context.Context) (string, error) { return checkPermissions(ctx, account) }),
		with("machine types", func(ctx context.Context) (string, error) {
			found, err := account.Types(ctx, types...)
			if err != nil {
				return "", doctor.Wrong("write types that "+e.Region+" sells", "%v", err)
			}
			for _, t := range found { // all of the region, when the job names none
				if t.Name == job.Reliable.Type || doctor.Buys(job, t) {
					known[t.Name] = t
				}
			}
			if job.WantsGPUs() {
				return checkGPUs(ctx, account, job, known)
			}
			return fmt.Sprintf("%d of the job's types are sold in %s", len(known), e.Region), nil
		}),
		with("image", func(ctx context.Context) (string, error) { return checkImage(ctx, account, e, image(job), known) }),
		with("subnets", func(ctx context.Context) (string, error) {
			return checkSubnets(ctx, account, e, job.Resources.Count.Most+job.Reliable.Count)
		}),
		with("security groups", func(ctx context.Context) (string, error) { return checkGroups(ctx, account, e) }),
		with("a launch", func(ctx context.Context) (string, error) { return checkLaunch(ctx, account, job, known) }),
		with("fleets", func(ctx context.Context) (string, error) { return checkFleet(ctx, account, job, known) }),
		with("terminations", func(ctx context.Context) (string, error) { return checkTerminations(ctx, account) }),
		with("prices", func(ctx context.Context) (string, error) { return checkPrices(ctx, account, job, types) }),
		with("on-demand prices", func(ctx context.Context) (string, error) { return checkOnDemand(ctx, account, job, types) }),
		with("quotas", func(ctx context.Context) (string, error) { return checkQuotas(ctx, account, job, known) }),
	}
	if job.Image != "" {
		checks = append(checks, doctor.ContainersOn(image(job), image(job) == deepLearning(job)))
	}
	if job.Resources.ProviderChooses() == "" {
		checks = slices.DeleteFunc(checks, func(c doctor.Check) bool { return c.Name == "fleets" })
	}
	return checks
}

// unseen reports whether something cannot be inspected without being at fault: the role may not, or the endpoint lacks the call.
func unseen(err error) bool {
	return errors.Is(err, provisioner.ErrDenied) || err != nil && strings.Contains(err.Error(), "InvalidAction")
}

func checkPermissions(ctx context.Context, account doctorAPI) (string, error) {
	var refused []string
	for _, action := range api.Actions() {
		if err := account.May(ctx, action); errors.Is(err, provisioner.ErrDenied) {
			refused = append(refused, "ec2:"+action)
		} else if err != nil {
			return "", err
		}
	}
	if len(refused) > 0 {
		return "", doctor.Wrong(roleAdvice, "not allowed: %s", strings.Join(refused, ", "))
	}
	return fmt.Sprintf("EC2 would allow all %d calls that look", len(api.Actions())), nil
}

// checkGPUs finds the types that have the GPUs a job requests.
func checkGPUs(ctx context.Context, account doctorAPI, job *config.Job, known map[string]market.InstanceType) (string, error) {
	gpus, err := gpuTypes(ctx, account, job)
	if err != nil {
		return "", doctor.Denied(err, roleAdvice)
	}
	var found []string
	for i, m := range job.Resources.AnyOf {
		if m.Type != "" {
			continue
		}
		names := named(m, gpus)
		if len(names) == 0 {
			return "", doctor.Wrong("write GPUs that it has, or another region", "%v", noGPU(job, i, gpus))
		}
		for _, name := range names {
			known[name] = gpus[name]
			found = append(found, name+" ("+gpus[name].GPU.String()+")")
		}
	}
	return fmt.Sprintf("with the job's GPUs, in %s: %s", blockOf(job).Region, strings.Join(found, ", ")), nil
}

func checkImage(ctx context.Context, account doctorAPI, e *Block, name string, types map[string]market.InstanceType) (string, error) {
	if parameter, is := strings.CutPrefix(name, bySSM); is {
		return "EC2 looks it up at each launch, in Systems Manager's parameter " + parameter + ": see the check a launch", nil
	}
	image, err := account.Image(ctx)
	switch {
	case unseen(err):
		return "", doctor.Warn("let the role do ec2:DescribeImages if doctor shall look at it; runs do without", "%v", err)
	case err != nil:
		return "", doctor.Wrong("write an image of "+e.Region+" in ec2.image: aws ssm get-parameter --name /aws/service/ami-amazon-linux-latest/al2023-ami-kernel-default-x86_64", "%v", err)
	case image.State != "available":
		return "", doctor.Wrong("choose another image, or wait", "%s is %s", name, image.State)
	}
	for kind, t := range types {
		if t.Arch != "" && image.Architecture != "" && t.Arch != image.Architecture {
			return "", doctor.Wrong("write an image of the types' architecture, or other types", "%s is for %s; %s is %s", name, image.Architecture, kind, t.Arch)
		}
	}
	if image.RootDevice != "" && image.RootDevice != e.Device {
		return "", doctor.Wrong("write ec2.device: "+image.RootDevice, "the image calls its root volume %s, the job %s", image.RootDevice, e.Device)
	}
	return fmt.Sprintf("%s is available, for %s", name, image.Architecture), nil
}

func checkSubnets(ctx context.Context, account doctorAPI, e *Block, machines int) (string, error) {
	if len(e.Subnets) == 0 {
		return "", doctor.Warn("write ec2.subnets when the region has no default network", "none are named: each zone's default subnet is used")
	}
	subnets, err := account.Subnets(ctx)
	switch {
	case unseen(err):
		return "", doctor.Warn("let the role do ec2:DescribeSubnets if doctor shall look at them; runs do without", "%v", err)
	case err != nil:
		return "", doctor.Wrong("write subnets of "+e.Region+" in ec2.subnets", "%v", err)
	}
	for zone, id := range e.Subnets {
		at := slices.IndexFunc(subnets, func(s api.Subnet) bool { return s.ID == id })
		switch {
		case at < 0:
			return "", doctor.Wrong("write subnets of "+e.Region+" in ec2.subnets", "there is no subnet %s", id)
		case subnets[at].Zone != zone:
			return "", doctor.Wrong("correct ec2.subnets", "%s is in %s, not in %s", id, subnets[at].Zone, zone)
		case subnets[at].Free < machines:
			return "", doctor.Warn("use a larger subnet, or fewer machines", "%s in %s has %d free addresses; the job may want %d", id, zone, subnets[at].Free, machines)
		}
	}
	return fmt.Sprintf("%d, with enough free addresses", len(subnets)), nil
}

func checkGroups(ctx context.Context, account doctorAPI, e *Block) (string, error) {
	if len(e.SecurityGroups) == 0 {
		return "", doctor.Warn("write ec2.security_groups when the default group was changed", "none are named: the network's default group is used, which lets its machines reach each other")
	}
	groups, err := account.SecurityGroups(ctx)
	switch {
	case unseen(err):
		return "", doctor.Warn("let the role do ec2:DescribeSecurityGroups if doctor shall look at them; runs do without", "%v", err)
	case err != nil:
		return "", doctor.Wrong("write groups of "+e.Region+" in ec2.security_groups", "%v", err)
	}
	if !slices.ContainsFunc(groups, func(g api.SecurityGroup) bool { return g.Within }) {
		return "", doctor.Wrong("add a rule: TCP 1024-65535 from the group itself", "no group lets its machines reach each other at the ports from 1024 on")
	}
	for _, g := range groups {
		if g.VPC != groups[0].VPC {
			return "", doctor.Wrong("write groups of one network", "%s and %s are of different networks", groups[0].ID, g.ID)
		}
	}
	return fmt.Sprintf("%d, in which machines reach each other", len(groups)), nil
}

// checkLaunch checks whether a machine of the first type could be launched: image, network, role and permissions together.
func checkLaunch(ctx context.Context, account doctorAPI, job *config.Job, known map[string]market.InstanceType) (string, error) {
	kind, zone := firstOf(job, known)
	if kind == "" || zone == "" {
		return "", doctor.Warn("tierml plan tries what it would buy", "the job names no type or no zone, so that none was tried")
	}
	for _, class := range []market.Class{market.Spot, market.OnDemand} {
		pool := market.Pool{Provider: Name, Region: blockOf(job).Region, Zone: zone, Type: kind, Class: class}
		if err := account.Try(ctx, provisioner.Request{Token: "doctor", Pool: pool, Count: 1}); err != nil {
			return "", doctor.Denied(err, roleAdvice+"; it may also be iam:PassRole for "+blockOf(job).InstanceProfile)
		}
	}
	return fmt.Sprintf("EC2 would launch %s in %s, spot and on demand (DryRun: capacity and quotas are not looked at)", kind, zone), nil
}

// checkFleet checks whether the role may do what fleets need in addition to launches.
func checkFleet(ctx context.Context, account doctorAPI, job *config.Job, known map[string]market.InstanceType) (string, error) {
	kind, zone := firstOf(job, known)
	if kind == "" || zone == "" {
		return "", doctor.Warn("a purchase tells", "the job names no type or no zone, so that none was tried")
	}
	pool := market.Pool{Provider: Name, Region: blockOf(job).Region, Zone: zone, Type: kind, Class: market.Spot}
	rights, err := account.TryFleet(ctx, provisioner.Request{Token: "doctor", Pool: pool, Count: 1})
	const instead = "; or write resources.allocation: " + config.AllocationOnePool
	switch {
	case unseen(err):
		return "", doctor.Warn("write resources.allocation: "+config.AllocationOnePool+" where there are no fleets", "%v", err)
	case err != nil:
		return "", doctor.Denied(err, roleAdvice+instead)
	case len(rights.Denied) > 0:
		return "", doctor.Wrong("let the role do it: apply terraform/aws again, which has them"+instead, "resources.allocation: %s takes fleets; not allowed: %s",
			job.Resources.Allocation, strings.Join(append(rights.Denied, rights.Unsure...), ", "))
	case len(rights.Unsure) > 0:
		return "", doctor.Warn("nothing is to be done when the role is that of terraform/aws; else let it do them"+instead,
			"refused for a launch template that does not exist: %s; a role that may use the cluster's own only is refused so, too", strings.Join(rights.Unsure, ", "))
	}
	return fmt.Sprintf("EC2 would make a fleet of %s in %s, and its launch template (DryRun)", kind, zone), nil
}

// firstOf returns the first type that the job names, or one with the GPUs that it requests, and a zone; empty if there is none.
func firstOf(job *config.Job, known map[string]market.InstanceType) (kind, zone string) {
	for _, m := range job.Resources.AnyOf {
		if m.Type != "" && kind == "" {
			kind = m.Type
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if kind == "" && job.WantsGPUs() && doctor.Buys(job, known[name]) {
			kind = name
		}
	}
	if len(job.Resources.Zones) > 0 {
		zone = job.Resources.Zones[0]
	}
	for z := range blockOf(job).Subnets {
		if len(job.Resources.Zones) == 0 && (zone == "" || z < zone) {
			zone = z
		}
	}
	return kind, zone
}

func checkTerminations(ctx context.Context, account doctorAPI) (string, error) {
	live, err := account.Holdings(ctx)
	if err != nil {
		return "", doctor.Denied(err, roleAdvice)
	}
	if len(live) == 0 {
		return "no machine of the cluster runs, so that there is none to try it on", nil
	}
	if err := account.MayTerminate(ctx, live[0].ID); err != nil {
		return "", doctor.Denied(err, roleAdvice+": machines must be ended by who bought them")
	}
	return fmt.Sprintf("EC2 would terminate %s, one of %d that run: see tierml leaks", live[0].ID, len(live)), nil
}

func checkPrices(ctx context.Context, account doctorAPI, job *config.Job, types []string) (string, error) {
	prices, err := account.PriceHistory(ctx, api.PriceQuery{Types: types, Zones: job.Resources.Zones, Since: time.Now().Add(-24 * time.Hour)}, func(int) {})
	if err != nil {
		return "", doctor.Denied(err, roleAdvice)
	}
	if len(prices) == 0 {
		return "", doctor.Wrong("write types and zones that are sold as spot machines", "EC2 tells no spot prices of the job's types")
	}
	return fmt.Sprintf("of %d pools", len(prices)), nil
}

// checkOnDemand queries the price list, unless the job has a catalog of its own.
func checkOnDemand(ctx context.Context, account doctorAPI, job *config.Job, types []string) (string, error) {
	if blockOf(job).Catalog != "" {
		return "of the job's own catalog", nil
	}
	if len(types) == 0 {
		return "", doctor.Warn("tierml plan asks for the types that meet a need", "the job names no type, so that none was asked for")
	}
	found, missing, err := account.OnDemand(ctx, types...)
	const instead = "name a CSV file in ec2.catalog; docs/prices.md says what it looks like"
	if err != nil {
		return "", doctor.Denied(err, "let the role do pricing:GetProducts, as that of terraform/aws may, or "+instead)
	}
	if len(missing) > 0 {
		return "", doctor.Wrong("write types that are sold there, or "+instead, "the AWS Price List has no price of %s in %s", strings.Join(missing, ", "), blockOf(job).Region)
	}
	return fmt.Sprintf("of %d types, by the AWS Price List", len(found)), nil
}

func checkQuotas(ctx context.Context, account doctorAPI, job *config.Job, types map[string]market.InstanceType) (string, error) {
	var said []string
	for _, q := range quotaNeeds(job, slices.Collect(maps.Values(types))) {
		limit, err := account.Quota(ctx, blockOf(job).Endpoint, q.code)
		if err != nil {
			return "", doctor.Warn("let the role do servicequotas:GetServiceQuota, or look at the console: Service Quotas, EC2, "+q.code, "%v", err)
		}
		if limit < q.wanted {
			return "", doctor.Wrong("ask for more: aws service-quotas request-service-quota-increase --service-code ec2 --quota-code "+q.code+
				fmt.Sprintf(" --desired-value %.0f", q.wanted), "%s: %.0f %s vCPUs are allowed; the job may want %.0f", q.code, limit, q.what, q.wanted)
		}
		said = append(said, fmt.Sprintf("%s: %.0f %s vCPUs (%.0f wanted)", q.code, limit, q.what, q.wanted))
	}
	if len(said) == 0 {
		return "", doctor.Warn("tierml plan asks for the types that meet a need", "the job names no type, so that none was asked for")
	}
	return strings.Join(said, ", "), nil
}
