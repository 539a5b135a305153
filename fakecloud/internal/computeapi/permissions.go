package computeapi

import (
	"net/http"
	"strings"
)

// Before a launch, clients query other services: which APIs are enabled, and what is permitted. Here everything is.

// getServices answers for Service Usage.
func getServices(c *call) (any, error) {
	type service struct {
		Name  string `json:"name"`
		State string `json:"state"`
	}
	var answer struct {
		Services []service `json:"services"`
	}
	for _, name := range c.URL.Query()["names"] {
		answer.Services = append(answer.Services, service{name, "ENABLED"})
	}
	return answer, nil
}

// testPermissions grants all permissions on an existing resource.
func testPermissions(resource action) action {
	return func(c *call) (any, error) {
		if _, err := resource(c); err != nil {
			return nil, err
		}
		var body struct {
			Permissions []string `json:"permissions"`
		}
		err := decode(c.body, &body)
		return body, err
	}
}

// permissible: projects for the Resource Manager and service accounts for IAM; any exists.
func permissible(c *call) (any, error) {
	if name, ok := strings.CutSuffix(c.PathValue("resource"), ":testIamPermissions"); !ok || strings.Contains(name, "/") && !strings.Contains(name, "/serviceAccounts/") {
		return nil, refusalf(http.StatusNotFound, "notFound", "no method %s %s is spoken here", c.Method, c.URL.Path)
	}
	return nil, nil
}
