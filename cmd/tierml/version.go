package main

import (
	"runtime"
	"runtime/debug"
)

// buildVersion is set by the Makefile: -ldflags "-X main.buildVersion=v1.2.3".
var buildVersion string

// version gives the version of the program. Built without make, it is what Go knows: the module's version, or
// the commit.
func version() string {
	v := buildVersion
	if v == "" {
		v = versionOfBuild()
	}
	return v + " (" + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
}

func versionOfBuild() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return "commit " + setting.Value
		}
	}
	return "unknown"
}
