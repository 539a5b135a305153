package reach_test

import _ "github.com/tierml/tierml/providers/all" // jobs of tests are of all providers
