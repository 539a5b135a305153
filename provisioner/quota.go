package provisioner

// Quota is a limit on what an account may have at a time, by the provider's name of it.
type Quota struct {
	Name        string
	Limit, Used float64
}
