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
	Type   string // "n2-standard-4"
	Zone   string // "us-central1-a"
	Region string // "us-central1"
}

// ReadIdentity reads this machine's identity from the metadata server.
func ReadIdentity(ctx context.Context) (Identity, error) {
	s := newService(answerWithin)
	defer s.close()
	var i Identity
	name, err := s.client.InstanceNameWithContext(ctx)
	if err == nil {
		i.Zone, err = s.client.ZoneWithContext(ctx)
	}
	if err == nil {
		i.Type, err = s.client.GetWithContext(ctx, "instance/machine-type")
	}
	if err == nil && name == "" {
		err = fmt.Errorf("instance/name: the server has no value")
	}
	if err != nil {
		return Identity{}, fmt.Errorf("asking the metadata server who this machine is: %w", err)
	}
	i.ID = provisioner.InstanceID(name)
	i.Type = strings.TrimSpace(i.Type[strings.LastIndexByte(i.Type, '/')+1:])
	if end := strings.LastIndexByte(i.Zone, '-'); end > 0 {
		i.Region = i.Zone[:end]
	}
	return i, nil
}

// ReadUserData returns the user data that the machine was launched with; nil = none.
func ReadUserData(ctx context.Context) ([]byte, error) {
	s := newService(answerWithin)
	defer s.close()
	data, err := s.attribute(ctx, AttributeUserData)
	if err != nil {
		return nil, fmt.Errorf("asking the metadata server for the user data: %w", err)
	}
	if data == "" {
		return nil, nil
	}
	return []byte(data), nil
}
