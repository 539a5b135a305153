package docstest_test

import _ "github.com/tierml/tierml/providers/all" // tests have jobs of all providers
