// Package recordings judges policies, plans and the oracle in the markets of recorded prices. `make help` in lab lists its studies; without
// their variables only the quick tests run.
package recordings
