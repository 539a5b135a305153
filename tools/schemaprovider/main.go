// Command schemaprovider is a Terraform provider that only knows a schema: enough for terraform to check a module and, with mock_provider,
// to plan and apply it in tests, without the real provider and without a network. Its schema is the file named by TIERML_PROVIDER_SCHEMA,
// which test/terraform/schemas.mjs writes.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

func main() {
	schemas, err := read(os.Getenv("TIERML_PROVIDER_SCHEMA"))
	if err == nil {
		err = tf6server.Serve(os.Getenv("TIERML_PROVIDER_NAME"), func() tfprotov6.ProviderServer { return &server{schemas: schemas} })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// schemas is the output of schemas.mjs.
type schemas struct {
	Provider    block            `json:"provider"`
	Resources   map[string]block `json:"resources"`
	DataSources map[string]block `json:"data_sources"`
}

type block struct {
	Attributes map[string]attribute `json:"attributes"`
	Blocks     map[string]struct {
		Nesting  string `json:"nesting"` // list or set
		Required bool   `json:"required"`
		Block    block  `json:"block"`
	} `json:"blocks"`
}

type attribute struct {
	Type     json.RawMessage `json:"type"` // in the form of Terraform's own JSON: "string", ["list", "string"]
	Required bool            `json:"required"`
	Optional bool            `json:"optional"`
	Computed bool            `json:"computed"`
}

func read(path string) (*schemas, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the schema (TIERML_PROVIDER_SCHEMA names it): %w", err)
	}
	var s schemas
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("reading the schema %s: %w", path, err)
	}
	return &s, nil
}

func (b block) schema() (*tfprotov6.Schema, error) {
	made, err := b.block()
	return &tfprotov6.Schema{Block: made}, err
}

func (b block) block() (*tfprotov6.SchemaBlock, error) {
	made := &tfprotov6.SchemaBlock{}
	for _, name := range sorted(b.Attributes) {
		a := b.Attributes[name]
		//lint:ignore SA1019 nothing else reads the form that Terraform itself prints
		kind, err := tftypes.ParseJSONType(a.Type)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", name, err)
		}
		made.Attributes = append(made.Attributes, &tfprotov6.SchemaAttribute{
			Name: name, Type: kind, Required: a.Required, Optional: a.Optional, Computed: a.Computed,
		})
	}
	for _, name := range sorted(b.Blocks) {
		inner := b.Blocks[name]
		nested, err := inner.Block.block()
		if err != nil {
			return nil, fmt.Errorf("block %s: %w", name, err)
		}
		n := &tfprotov6.SchemaNestedBlock{TypeName: name, Block: nested, Nesting: tfprotov6.SchemaNestedBlockNestingModeList}
		if inner.Nesting == "set" {
			n.Nesting = tfprotov6.SchemaNestedBlockNestingModeSet
		}
		if inner.Required {
			n.MinItems = 1
		}
		made.BlockTypes = append(made.BlockTypes, n)
	}
	return made, nil
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// server answers terraform's queries that precede any action. Anything else fails: the embedded interface is nil, and mocks keep terraform
// from calling it.
type server struct {
	tfprotov6.ProviderServer
	schemas *schemas
}

func (s *server) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	var r tfprotov6.GetMetadataResponse
	for _, name := range sorted(s.schemas.Resources) {
		r.Resources = append(r.Resources, tfprotov6.ResourceMetadata{TypeName: name})
	}
	for _, name := range sorted(s.schemas.DataSources) {
		r.DataSources = append(r.DataSources, tfprotov6.DataSourceMetadata{TypeName: name})
	}
	return &r, nil
}

func (s *server) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	r := &tfprotov6.GetProviderSchemaResponse{
		ResourceSchemas:   map[string]*tfprotov6.Schema{},
		DataSourceSchemas: map[string]*tfprotov6.Schema{},
	}
	var err error
	if r.Provider, err = s.schemas.Provider.schema(); err != nil {
		return nil, fmt.Errorf("the provider's own schema: %w", err)
	}
	for name, b := range s.schemas.Resources {
		made, wrong := b.schema()
		err = errors.Join(err, named(name, wrong))
		r.ResourceSchemas[name] = made
	}
	for name, b := range s.schemas.DataSources {
		made, wrong := b.schema()
		err = errors.Join(err, named(name, wrong))
		r.DataSourceSchemas[name] = made
	}
	return r, err
}

func named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (s *server) GetResourceIdentitySchemas(context.Context, *tfprotov6.GetResourceIdentitySchemasRequest) (*tfprotov6.GetResourceIdentitySchemasResponse, error) {
	return &tfprotov6.GetResourceIdentitySchemasResponse{}, nil
}

func (s *server) ValidateProviderConfig(_ context.Context, r *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: r.Config}, nil
}

func (s *server) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (s *server) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

// UpgradeResourceState returns states unchanged: there is one version.
func (s *server) UpgradeResourceState(_ context.Context, r *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	made, err := s.schemas.Resources[r.TypeName].schema()
	if err != nil {
		return nil, err
	}
	kind := made.ValueType()
	value, err := r.RawState.Unmarshal(kind)
	if err != nil {
		return nil, fmt.Errorf("reading the state of %s: %w", r.TypeName, err)
	}
	state, err := tfprotov6.NewDynamicValue(kind, value)
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: &state}, err
}

func (s *server) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}
