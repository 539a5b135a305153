package notice

import (
	"context"
	"fmt"
	"strings"

	"github.com/tierml/tierml/provisioner"
)

// Identity identifies a machine.
type Identity struct {
	ID     provisioner.InstanceID
	Type   string // "c3.xlarge"
	Zone   string // "us-west-1a"
	Region string // "us-west-1"
}

// ReadIdentity reads this machine's identity from the metadata service.
func ReadIdentity(ctx context.Context, c Config) (Identity, error) {
	s := newService(c, readAttempts)
	defer s.close()
	id, err := s.instanceID(ctx)
	if err != nil {
		return Identity{}, identityFailure(err)
	}
	identity := Identity{ID: id}
	for _, field := range []struct {
		path  string
		value *string
	}{
		{"instance-type", &identity.Type},
		{"placement/availability-zone", &identity.Zone},
		{"placement/region", &identity.Region},
	} {
		if *field.value, err = s.must(ctx, field.path); err != nil {
			return Identity{}, identityFailure(err)
		}
	}
	return identity, nil
}

func identityFailure(err error) error {
	return fmt.Errorf("asking the instance metadata service who this machine is: %w", err)
}

// ReadUserData returns the user data that the machine was launched with; nil = none.
func ReadUserData(ctx context.Context, c Config) ([]byte, error) {
	s := newService(c, readAttempts)
	defer s.close()
	data, err := s.userData(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the instance metadata service for the user data: %w", err)
	}
	return data, nil
}

// instanceID returns the machine's own id.
func (s *service) instanceID(ctx context.Context) (provisioner.InstanceID, error) {
	id, err := s.must(ctx, "instance-id")
	if err == nil && !strings.HasPrefix(id, "i-") {
		err = fmt.Errorf("instance-id: %q is no instance id", shorten(id))
	}
	return provisioner.InstanceID(id), err
}
