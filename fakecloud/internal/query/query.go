// Package query speaks the EC2 Query API (version 2016-11-15): form parameters in, XML out, errors with EC2's codes and HTTP statuses. It
// decides nothing; it translates between the wire and a region.Region.
//
// The AWS Price List API and Service Quotas, which are JSON (pricelist.go), STS (services.go) and the Fault Injection Service (fis.go) are
// answered at the same address.
//
// Signatures are accepted unchecked. A parameter that no real client would send is refused with UnknownParameter, so that a misspelt one
// does not go unnoticed; those without a meaning on one machine (networks, disks, keys) are known and have no effect.
package query

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tierml/tierml/fakecloud/internal/region"
)

// Version is the API version that is spoken.
const Version = "2016-11-15"

// Account is the number of the only account.
const Account = "000000000000"

const namespace = "http://ec2.amazonaws.com/doc/" + Version + "/"

// maxRequest is larger than any request: 16 KiB of user data is EC2's limit.
const maxRequest = 1 << 20

// Backend gives a call exclusive use of the region, at a time.
type Backend interface {
	Do(f func(r *region.Region, now time.Time))
}

// Handler answers requests.
type Handler struct {
	backend Backend
	log     *slog.Logger
	calls   atomic.Uint64
	faults  faults
}

// New returns a Handler.
func New(b Backend, log *slog.Logger) *Handler { return &Handler{backend: b, log: log} }

// action answers one call. The answer embeds header.
type action func(c *call) (answer, error)

var actions = map[string]action{
	"RunInstances":                 runInstances,
	"CreateFleet":                  createFleet,
	"CreateLaunchTemplate":         createLaunchTemplate,
	"DescribeLaunchTemplates":      describeLaunchTemplates,
	"DeleteLaunchTemplate":         deleteLaunchTemplate,
	"ModifyLaunchTemplate":         modifyLaunchTemplate,
	"CreateLaunchTemplateVersion":  createLaunchTemplateVersion,
	"GetLaunchTemplateData":        getLaunchTemplateData,
	"DescribeInstances":            describeInstances,
	"TerminateInstances":           terminateInstances,
	"DescribeSpotPriceHistory":     describeSpotPriceHistory,
	"DescribeInstanceTypes":        describeInstanceTypes,
	"DescribeSpotInstanceRequests": describeSpotInstanceRequests,
	"CancelSpotInstanceRequests":   cancelSpotInstanceRequests,
	"RequestSpotInstances":         requestSpotInstances,
	"StartInstances":               change(startInstances),
	"StopInstances":                change(stopInstances),
	"ModifyInstanceAttribute":      modifyInstanceAttribute,
	"CreateTags":                   createTags,
	"DeleteTags":                   deleteTags,
	"DescribeAvailabilityZones":    describeAvailabilityZones,
	"DescribeRegions":              describeRegions,
	"GetSpotPlacementScores":       getSpotPlacementScores,

	"GetInstanceTypesFromInstanceRequirements": getInstanceTypesFromInstanceRequirements,

	"DescribeLaunchTemplateVersions": describeLaunchTemplateVersions,
	"DeleteLaunchTemplateVersions":   deleteLaunchTemplateVersions,

	"DescribeFleets":         describeFleets,
	"DescribeFleetHistory":   ec2Fleets.history,
	"DescribeFleetInstances": ec2Fleets.instances,
	"DeleteFleets":           deleteFleets,
	"ModifyFleet":            modifyFleet,

	"RequestSpotFleet":           requestSpotFleet,
	"ModifySpotFleetRequest":     modifySpotFleetRequest,
	"CancelSpotFleetRequests":    cancelSpotFleetRequests,
	"DescribeSpotFleetInstances": spotFleets.instances,
	"DescribeSpotFleetRequests": describe("spotFleetRequestConfigSet", spotFleetRequests, key{
		param: "SpotFleetRequestId", filter: "spot-fleet-request-id", code: spotFleets.code, what: "spot fleet request ID '%s'", prefix: "sfr-"}),
	"DescribeSpotFleetRequestHistory": spotFleets.history,

	"DescribeImages": describe("imagesSet", images, key{
		param: "ImageId", filter: "image-id", code: "InvalidAMIID.NotFound", what: "image id '[%s]'", prefix: "ami-"}),
	"DescribeVpcs":              describe("vpcSet", of(region.VPC, vpcShape), key{param: "VpcId", filter: "vpc-id", code: "InvalidVpcID.NotFound", what: "vpc ID '%s'"}),
	"DescribeSubnets":           describe("subnetSet", of(region.Subnet, subnetShape), key{param: "SubnetId", filter: "subnet-id", code: "InvalidSubnetID.NotFound", what: "subnet ID '%s'"}),
	"DescribeInternetGateways":  describe("internetGatewaySet", of(region.InternetGateway, gatewayShape), key{param: "InternetGatewayId", filter: "internet-gateway-id", code: "InvalidInternetGatewayID.NotFound", what: "internet gateway ID '%s'"}),
	"DescribeRouteTables":       describe("routeTableSet", of(region.RouteTable, routeTableShape), key{param: "RouteTableId", filter: "route-table-id", code: "InvalidRouteTableID.NotFound", what: "routeTable ID '%s'"}),
	"DescribeAccountAttributes": describeAccountAttributes,
	"DescribeTags":              describe("tagSet", allTags),
	"DescribeInstanceStatus": describe("instanceStatusSet", instanceStatuses, key{
		param: "InstanceId", filter: "instance-id", code: "InvalidInstanceID.NotFound", what: "instance ID '%s'", exists: isInstance}),
	"DescribeVolumes": describe("volumeSet", volumes, key{param: "VolumeId", filter: "volume-id", code: "InvalidVolume.NotFound", what: "volume '%s'", prefix: "vol-"}),
	"DescribeNetworkInterfaces": describe("networkInterfaceSet", networkInterfaces, key{
		param: "NetworkInterfaceId", filter: "network-interface-id", code: "InvalidNetworkInterfaceID.NotFound", what: "networkInterface ID '%s'", prefix: "eni-"}),
	"DescribeInstanceAttribute":     describeInstanceAttribute,
	"ModifyInstanceMetadataOptions": modifyInstanceMetadataOptions,
	"DescribePlacementGroups":       describe("placementGroupSet", func(*call) []placementGroup { return nil }, key{param: "GroupName", filter: "group-name", code: "InvalidPlacementGroup.Unknown", what: "Placement Group '%s'"}),
	"DescribeAddresses": describe("addressesSet", of(region.ElasticIP, elasticShape), key{param: "AllocationId", filter: "allocation-id", code: "InvalidAllocationID.NotFound", what: "allocation ID '%s'"},
		key{param: "PublicIp", filter: "public-ip", code: "InvalidAddress.NotFound", what: "address '%s'"}),
	"AllocateAddress":               allocateAddress,
	"AssociateAddress":              associateAddress,
	"DisassociateAddress":           disassociateAddress,
	"ReleaseAddress":                releaseAddress,
	"DescribeNetworkAcls":           describe("networkAclSet", of(region.VPC, aclShape), key{param: "NetworkAclId", filter: "network-acl-id", code: "InvalidNetworkAclID.NotFound", what: "networkAcl ID '%s'"}),
	"CreateVolume":                  createVolume,
	"AttachVolume":                  attachVolume,
	"DetachVolume":                  detachVolume,
	"DeleteVolume":                  deleteVolume,
	"RebootInstances":               rebootInstances,
	"GetConsoleOutput":              getConsoleOutput,
	"DescribeInstanceTypeOfferings": describe("instanceTypeOfferingSet", offerings),

	"DescribeKeyPairs": describe("keySet", keyPairs, key{param: "KeyName", filter: "key-name", code: "InvalidKeyPair.NotFound", what: "key pair '%s'"},
		key{param: "KeyPairId", filter: "key-pair-id", code: "InvalidKeyPair.NotFound", what: "key pair '%s'"}),
	"CreateKeyPair": createKeyPair,
	"ImportKeyPair": importKeyPair,
	"DeleteKeyPair": deleteKeyPair,

	"DescribeSecurityGroups": describe("securityGroupInfo", of(region.SecurityGroup, groupShape), key{param: "GroupId", filter: "group-id", code: "InvalidGroup.NotFound", what: "security group '%s'"},
		key{param: "GroupName", filter: "group-name", code: "InvalidGroup.NotFound", what: "security group '%s'"}),
	"DescribeSecurityGroupRules":    describe("securityGroupRuleSet", groupRules, key{param: "SecurityGroupRuleId", filter: "security-group-rule-id", code: "InvalidSecurityGroupRuleId.NotFound", what: "security group rule ID '%s'"}),
	"CreateSecurityGroup":           createSecurityGroup,
	"DeleteSecurityGroup":           deleteSecurityGroup,
	"AuthorizeSecurityGroupIngress": authorize(false),
	"AuthorizeSecurityGroupEgress":  authorize(true),
	"RevokeSecurityGroupIngress":    revoke(false),
	"RevokeSecurityGroupEgress":     revoke(true),
}

// call is one request.
type call struct {
	*params
	region *region.Region
	now    time.Time
	host   string
	force  bool // of StopInstances
}

// ready makes the checks common to every action after it has read its parameters, before it acts.
func (c *call) ready() error {
	dryRun := c.boolean("DryRun")
	if err := c.finish(); err != nil {
		return err
	}
	if dryRun {
		return region.Errorf("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	return nil
}

// header is the beginning of every answer.
type header struct {
	Namespace string `xml:"xmlns,attr"`
	RequestID string `xml:"requestId"`
}

func (h *header) stamp(requestID string) { h.Namespace, h.RequestID = namespace, requestID }

type answer interface{ stamp(requestID string) }

func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(jsonTarget) != "" {
		h.serveJSON(w, r)
		return
	}
	if r.URL.Path != "/" {
		h.serveFaults(w, r)
		return
	}
	requestID := fmt.Sprintf("00000000-0000-4000-8000-%012x", h.calls.Add(1))
	form, err := readForm(w, r)
	name := form.Get("Action")
	var result answer
	if err == nil {
		result, err = h.act(name, form, r.Host)
	}
	if err != nil {
		var refusal *region.Error
		if !errors.As(err, &refusal) {
			refusal = region.Errorf("InternalError", "%v", err)
		}
		h.log.Debug("request refused", "action", name, "code", refusal.Code, "message", refusal.Message)
		writeError(w, refusal, requestID)
		return
	}
	h.log.Debug("request", "action", name)
	result.stamp(requestID)
	writeXML(w, http.StatusOK, requestID, name+"Response", result)
}

// readForm reads the parameters of a POST body or of a GET's query.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	switch r.Method {
	case http.MethodGet:
	case http.MethodPost:
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/x-www-form-urlencoded" {
			return nil, region.Errorf("InvalidRequest", "The Content-Type must be application/x-www-form-urlencoded.")
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxRequest)
	default:
		return nil, region.Errorf("InvalidRequest", "The method must be POST or GET.")
	}
	if err := r.ParseForm(); err != nil {
		return nil, region.Errorf("MalformedQueryString", "The query string contains a syntax error: %v", err)
	}
	return r.Form, nil
}

func (h *Handler) act(name string, form url.Values, host string) (result answer, err error) {
	if name == "" {
		return nil, region.Errorf("MissingAction", "The request must contain the parameter Action; this is the endpoint of the EC2 API.")
	}
	act, ok := actions[name]
	version := Version
	if form.Get("Version") == stsVersion {
		act, ok = stsActions[name]
		version = stsVersion
	}
	if !ok {
		return nil, region.Errorf("InvalidAction", "The action %s is not valid for this web service.", name)
	}
	if v := form.Get("Version"); v != "" && v != version {
		return nil, region.Errorf("NoSuchVersion", "The requested version (%s) of service AmazonEC2 does not exist", v)
	}
	h.backend.Do(func(r *region.Region, now time.Time) {
		if r.Throttled(now) {
			err = region.Errorf("RequestLimitExceeded", "Request limit exceeded.")
			return
		}
		result, err = act(&call{params: newParams(form), region: r, now: now, host: host})
	})
	return result, err
}

// statuses are those other than 400.
var statuses = map[string]int{
	"DryRunOperation":              http.StatusPreconditionFailed,
	"InsufficientInstanceCapacity": http.StatusInternalServerError,
	"InternalError":                http.StatusInternalServerError,
	"RequestLimitExceeded":         http.StatusServiceUnavailable,
	"Unavailable":                  http.StatusServiceUnavailable,
}

func writeError(w http.ResponseWriter, e *region.Error, requestID string) {
	type item struct {
		Code    string
		Message string
	}
	body := struct {
		Errors    []item `xml:"Errors>Error"`
		RequestID string
	}{[]item{{e.Code, e.Message}}, requestID}
	status, ok := statuses[e.Code]
	if !ok {
		status = http.StatusBadRequest
	}
	writeXML(w, status, requestID, "Response", body)
}

func writeXML(w http.ResponseWriter, status int, requestID, root string, body any) {
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n")
	e := xml.NewEncoder(&b)
	e.Indent("", "    ")
	if err := e.EncodeElement(body, xml.StartElement{Name: xml.Name{Local: root}}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	b.WriteByte('\n')
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", requestID)
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	w.Write(b.Bytes()) // a client that has disconnected needs no answer
}
