package config_test

import _ "github.com/tierml/tierml/providers/all" // the tests of this package read jobs of all providers
