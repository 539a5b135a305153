package tiers

import (
	"fmt"
	"math"
	"reflect"

	"github.com/tierml/tierml/ps"
)

// longestText bounds names, addresses and error messages in reports, in bytes.
const longestText = 256 << 10

// CheckReport reports whether the numbers of a report are within a job's bounds: its readers use them as indices and counts. The schema may
// be nil before it is known.
func CheckReport(s *ps.Schema, r Report) error { return check(s, reflect.ValueOf(r), true) }

// CheckCommand is CheckReport for a command, where only partitions are indices.
func CheckCommand(s *ps.Schema, do Do) error { return check(s, reflect.ValueOf(do), false) }

var (
	partitionType = reflect.TypeFor[ps.Partition]()
	splitType     = reflect.TypeFor[ps.Split]()
	clockType     = reflect.TypeFor[ps.Clock]()
	schemaType    = reflect.TypeFor[ps.Schema]()
)

func check(s *ps.Schema, v reflect.Value, report bool) error {
	switch v.Kind() {
	case reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return check(s, v.Elem(), report)
	case reflect.Struct:
		if v.Type() == schemaType { // it has a check of its own
			return nil
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				if err := check(s, v.Field(i), report); err != nil {
					return fmt.Errorf("%s: %w", f.Name, err)
				}
			}
		}
	case reflect.Slice:
		if s != nil && v.Type().Elem() == clockType && v.Len() != s.Splits { // a vector of marks
			return fmt.Errorf("clocks of %d splits, not %d", v.Len(), s.Splits)
		}
		for i := range v.Len() {
			if err := check(s, v.Index(i), report); err != nil {
				return err
			}
		}
	case reflect.String:
		if report && v.Len() > longestText {
			return fmt.Errorf("%d bytes of text", v.Len())
		}
	default:
		return checkNumber(s, v, report)
	}
	return nil
}

func checkNumber(s *ps.Schema, v reflect.Value, report bool) error {
	switch {
	case s != nil && v.Type() == partitionType && v.Uint() >= uint64(s.Partitions):
		return fmt.Errorf("partition %d of %d", v.Uint(), s.Partitions)
	case s != nil && report && v.Type() == splitType && v.Uint() >= uint64(s.Splits):
		return fmt.Errorf("split %d of %d", v.Uint(), s.Splits)
	case !report:
	case v.Type() == clockType && (v.Int() < -1 || v.Int() > int64(ps.LastClock)):
		return fmt.Errorf("clock %d", v.Int())
	case v.Type() != clockType && v.CanInt() && (v.Int() < 0 || v.Int() > math.MaxInt64/2):
		return fmt.Errorf("%d", v.Int())
	}
	return nil
}
