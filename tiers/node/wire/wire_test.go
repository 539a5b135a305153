package wire_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/tierml/tierml/ps"
	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
	"github.com/tierml/tierml/tiers/node/wire"
)

var (
	commands = []tiers.Do{
		tiers.Welcome{}, tiers.SetRoute{}, tiers.Own{}, tiers.BackUp{}, tiers.NameCut{}, tiers.UnnameCut{},
		tiers.CommitCut{}, tiers.MoveOut{}, tiers.HurryMoves{}, tiers.Promote{}, tiers.FenceWorker{}, tiers.SettleWorker{},
		tiers.FenceGeneration{}, tiers.Recover{}, tiers.Load{}, tiers.Assign{}, tiers.Release{}, tiers.Park{},
		tiers.Unpark{}, tiers.Stop{}, tiers.SaveCut{}, tiers.TakeStock{},
		tiers.RunProgram{}, tiers.SetPeers{}, tiers.SaveProgram{}, tiers.StopProgram{},
	}
	reports = []tiers.Report{
		tiers.Hello{}, tiers.Answer{}, tiers.Heartbeat{}, tiers.Progress{}, tiers.CutHeld{}, tiers.Warned{}, tiers.Failed{}, tiers.Used{}, tiers.Crashed{},
		tiers.ProgramStarted{}, tiers.ProgramAdvanced{}, tiers.ProgramSaved{}, tiers.ProgramSaveFailed{}, tiers.ProgramExited{},
	}
	results = []tiers.Result{
		tiers.Released{}, tiers.Parked{}, tiers.Standings{}, tiers.Holdings{}, tiers.Saved{}, tiers.Moved{}, tiers.Stock{},
	}
)

// The other tests go through the lists above; a new kind of message must be in them.
func TestEveryKindIsTested(t *testing.T) {
	declared := kinds(t, "../../messages.go")
	for marker, want := range map[string][]string{
		"command": typeNames(commands), "report": typeNames(reports), "result": typeNames(results),
	} {
		slices.Sort(want)
		slices.Sort(declared[marker])
		if diff := cmp.Diff(declared[marker], want); diff != "" {
			t.Errorf("types with %s() in tiers/messages.go, and those tested here (+):\n%s", marker, diff)
		}
	}
}

func TestCommandsSurviveTheWire(t *testing.T) {
	for _, kind := range commands {
		t.Run(reflect.TypeOf(kind).Name(), rapid.MakeCheck(func(t *rapid.T) {
			sent := tiers.Command{ID: rapid.Uint64().Draw(t, "id"), Do: draw(t, kind).(tiers.Do)}
			m, err := wire.EncodeCommand(sent)
			if err != nil {
				t.Fatal(err)
			}
			got, err := wire.DecodeCommand(overTheWire(t, m, &pb.ToNode{}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sent, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("changed on the way (-sent +got):\n%s", diff)
			}
		}))
	}
}

func TestReportsSurviveTheWire(t *testing.T) {
	for _, kind := range reports {
		if _, ok := kind.(tiers.Answer); ok {
			for _, result := range append(slices.Clone(results), nil) {
				checkReport(t, func(t *rapid.T) tiers.Report {
					answer := tiers.Answer{
						ID:    rapid.Uint64().Draw(t, "id"),
						Code:  tiers.Code(rapid.String().Draw(t, "code")),
						Error: rapid.String().Draw(t, "error"),
					}
					if result != nil {
						answer.Result = draw(t, result).(tiers.Result)
					}
					return answer
				}, kind, result)
			}
			if n := reflect.TypeFor[tiers.Answer]().NumField(); n != 4 {
				t.Errorf("tiers.Answer has %d fields; this test draws 4", n)
			}
			continue
		}
		checkReport(t, func(t *rapid.T) tiers.Report { return draw(t, kind).(tiers.Report) }, kind, nil)
	}
}

func checkReport(t *testing.T, next func(*rapid.T) tiers.Report, kind tiers.Report, result tiers.Result) {
	name := reflect.TypeOf(kind).Name()
	if result != nil {
		name += " " + reflect.TypeOf(result).Name()
	}
	t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
		sent := next(t)
		m, err := wire.EncodeReport(sent)
		if err != nil {
			t.Fatal(err)
		}
		got, err := wire.DecodeReport(overTheWire(t, m, &pb.FromNode{}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("changed on the way (-sent +got):\n%s", diff)
		}
	}))
}

func TestUnknownKindsAreRefused(t *testing.T) {
	if _, err := wire.DecodeCommand(&pb.ToNode{Id: 7}); err == nil {
		t.Error("a command without a kind was accepted")
	}
	if _, err := wire.DecodeReport(&pb.FromNode{}); err == nil {
		t.Error("a report without a kind was accepted")
	}
	if _, err := wire.EncodeCommand(tiers.Command{ID: 7}); err == nil {
		t.Error("a command without a kind was sent")
	}
	if _, err := wire.EncodeReport(nil); err == nil {
		t.Error("no report was sent as one")
	}
}

func overTheWire[M proto.Message](t *rapid.T, sent, got M) M {
	data, err := proto.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(data, got); err != nil {
		t.Fatal(err)
	}
	return got
}

// draw returns a value of kind's type with every field drawn, by reflection: a field unknown to the translation is lost on the way.
func draw(t *rapid.T, kind any) any {
	v := reflect.New(reflect.TypeOf(kind)).Elem()
	fill(t, v, v.Type().Name())
	return v.Interface()
}

func fill(t *rapid.T, v reflect.Value, path string) {
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		at := time.Unix(rapid.Int64Range(-1<<33, 1<<33).Draw(t, path), rapid.Int64Range(0, 1e9-1).Draw(t, path)).UTC()
		v.Set(reflect.ValueOf(at))
		return
	case v.Type() == reflect.TypeFor[time.Duration]():
		v.SetInt(rapid.Int64().Draw(t, path))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), path+"."+v.Type().Field(i).Name)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 3).Draw(t, path), 3))
		for i := range v.Len() {
			fill(t, v.Index(i), path)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range rapid.IntRange(0, 3).Draw(t, path) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			fill(t, key, path)
			fill(t, value, path)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(rapid.String().Draw(t, path))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, path))
	case reflect.Int, reflect.Int64:
		v.SetInt(rapid.Int64().Draw(t, path))
	case reflect.Uint64:
		v.SetUint(rapid.Uint64().Draw(t, path))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Uint8().Draw(t, path)))
	case reflect.Uint16:
		v.SetUint(uint64(rapid.Uint16().Draw(t, path)))
	case reflect.Uint32:
		v.SetUint(uint64(rapid.Uint32().Draw(t, path)))
	case reflect.Float32:
		v.SetFloat(float64(rapid.Float32().Draw(t, path)))
	case reflect.Float64:
		v.SetFloat(rapid.Float64().Draw(t, path))
	default:
		t.Fatalf("%s: no way to draw a %s; add one", path, v.Type())
	}
}

// kinds lists the types of a file by their marker method.
func kinds(t *testing.T, file string) map[string][]string {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	byMarker := map[string][]string{}
	for _, d := range parsed.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil {
			if receiver, ok := f.Recv.List[0].Type.(*ast.Ident); ok {
				byMarker[f.Name.Name] = append(byMarker[f.Name.Name], receiver.Name)
			}
		}
	}
	return byMarker
}

func typeNames[T any](values []T) []string {
	var names []string
	for _, v := range values {
		names = append(names, reflect.TypeOf(v).Name())
	}
	return names
}

// FuzzReport reads whatever a machine may send; what passes the check has no index beyond the job's bounds.
func FuzzReport(f *testing.F) {
	for _, result := range results {
		m, err := wire.EncodeReport(tiers.Answer{ID: 1, Result: result})
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	schema := &ps.Schema{Partitions: 4, Splits: 3}
	f.Fuzz(func(t *testing.T, b []byte) {
		var m pb.FromNode
		if proto.Unmarshal(b, &m) != nil {
			return
		}
		r, err := wire.DecodeReport(&m)
		if err != nil || tiers.CheckReport(schema, r) != nil {
			return
		}
		switch r := r.(type) {
		case tiers.Progress:
			for _, s := range r.Splits {
				if int(s.Split) >= schema.Splits {
					t.Error(s)
				}
			}
		case tiers.Answer:
			if s, ok := r.Result.(tiers.Standings); ok {
				for _, p := range s.Partitions {
					if int(p.Partition) >= schema.Partitions || len(p.Marks) != schema.Splits {
						t.Error(p)
					}
				}
			}
		}
	})
}
