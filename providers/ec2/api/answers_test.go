package api

import "testing"

func TestAnswersOfOthersAreRefused(t *testing.T) {
	for text, want := range map[string]bool{
		`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><reservationSet/>`: true,
		"\n  <TerminateInstancesResponse>":                        true,
		"<html><body>Please log in to the network.</body></html>": false,
		"<!DOCTYPE html><html><body>Response</body></html>":       false,
		"":                            false,
		`{"message": "try again"}`:    false,
		"<!-- hotel --> <HTML><head>": false,
	} {
		if got := fromEC2([]byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}
