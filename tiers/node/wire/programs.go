package wire

import (
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tierml/tierml/tiers"
	pb "github.com/tierml/tierml/tiers/node/controlpb"
)

func encodeRun(r tiers.RunProgram) *pb.RunProgram {
	return &pb.RunProgram{
		Spec: r.Spec, Attempt: r.Attempt, Key: r.Key, Rank: int64(r.Rank), Ranks: int64(r.Ranks), Task: int64(r.Task),
		Tasks: int64(r.Tasks), Master: r.Master, Resume: r.Resume, ResumeDigest: r.ResumeDigest, Settings: r.Settings, Secrets: r.Secrets,
		Heartbeat: durationpb.New(r.Heartbeat), OrphanAfter: durationpb.New(r.OrphanAfter), Elastic: r.Elastic, Peers: r.Peers,
	}
}

func decodeRun(m *pb.RunProgram) tiers.RunProgram {
	return tiers.RunProgram{
		Spec: m.GetSpec(), Attempt: m.GetAttempt(), Key: m.GetKey(), Rank: int(m.GetRank()), Ranks: int(m.GetRanks()),
		Task: int(m.GetTask()), Tasks: int(m.GetTasks()), Master: m.GetMaster(), Resume: m.GetResume(), ResumeDigest: m.GetResumeDigest(),
		Settings: m.GetSettings(), Secrets: m.GetSecrets(),
		Heartbeat: m.GetHeartbeat().AsDuration(), OrphanAfter: m.GetOrphanAfter().AsDuration(), Elastic: m.GetElastic(), Peers: m.GetPeers(),
	}
}

// encodeProgram sets the report of a program. Its output may hold any bytes, but protobuf accepts only UTF-8.
func encodeProgram(m *pb.FromNode, r tiers.Report) {
	switch r := r.(type) {
	case tiers.ProgramStarted:
		m.Report = &pb.FromNode_ProgramStarted{ProgramStarted: &pb.ProgramStarted{
			Attempt: r.Attempt, Fetch: r.Fetch, Setup: r.Setup, Restore: r.Restore, Bytes: r.Bytes, Step: r.Step,
			Note: strings.ToValidUTF8(r.Note, "?")}}
	case tiers.ProgramAdvanced:
		m.Report = &pb.FromNode_ProgramAdvanced{ProgramAdvanced: &pb.ProgramAdvanced{Attempt: r.Attempt, Step: r.Step, HasLoss: r.HasLoss, Loss: r.Loss}}
	case tiers.ProgramSaved:
		m.Report = &pb.FromNode_ProgramSaved{ProgramSaved: &pb.ProgramSaved{
			Attempt: r.Attempt, Manifest: strings.ToValidUTF8(r.Manifest, "?"), Digest: r.Digest, Bytes: r.Bytes, Sent: r.Sent, Step: r.Step,
			Seconds: r.Seconds, Final: r.Final, Round: r.Round}}
	case tiers.ProgramSaveFailed:
		m.Report = &pb.FromNode_ProgramSaveFailed{ProgramSaveFailed: &pb.ProgramSaveFailed{
			Attempt: r.Attempt, Error: strings.ToValidUTF8(r.Error, "?"), Final: r.Final}}
	case tiers.ProgramExited:
		m.Report = &pb.FromNode_ProgramExited{ProgramExited: &pb.ProgramExited{
			Attempt: r.Attempt, Code: int64(r.Code), Signal: r.Signal, Phase: r.Phase, Tail: strings.ToValidUTF8(r.Tail, "?"),
			Note: strings.ToValidUTF8(r.Note, "?"), Asked: r.Asked, Cpu: r.CPU, Wait: r.Wait, Memory: r.Memory}}
	}
}

// decodeProgram returns nil for reports of other kinds.
func decodeProgram(m *pb.FromNode) tiers.Report {
	switch r := m.GetReport().(type) {
	case *pb.FromNode_ProgramStarted:
		s := r.ProgramStarted
		return tiers.ProgramStarted{Attempt: s.GetAttempt(), Fetch: s.GetFetch(), Setup: s.GetSetup(), Restore: s.GetRestore(), Bytes: s.GetBytes(),
			Step: s.GetStep(), Note: s.GetNote()}
	case *pb.FromNode_ProgramAdvanced:
		return tiers.ProgramAdvanced{Attempt: r.ProgramAdvanced.GetAttempt(), Step: r.ProgramAdvanced.GetStep(), HasLoss: r.ProgramAdvanced.GetHasLoss(), Loss: r.ProgramAdvanced.GetLoss()}
	case *pb.FromNode_ProgramSaved:
		s := r.ProgramSaved
		return tiers.ProgramSaved{Attempt: s.GetAttempt(), Manifest: s.GetManifest(), Digest: s.GetDigest(), Bytes: s.GetBytes(),
			Sent: s.GetSent(), Step: s.GetStep(), Seconds: s.GetSeconds(), Final: s.GetFinal(), Round: s.GetRound()}
	case *pb.FromNode_ProgramSaveFailed:
		return tiers.ProgramSaveFailed{Attempt: r.ProgramSaveFailed.GetAttempt(), Error: r.ProgramSaveFailed.GetError(),
			Final: r.ProgramSaveFailed.GetFinal()}
	case *pb.FromNode_ProgramExited:
		e := r.ProgramExited
		return tiers.ProgramExited{Attempt: e.GetAttempt(), Code: int(e.GetCode()), Signal: e.GetSignal(), Phase: e.GetPhase(), Tail: e.GetTail(),
			Note: e.GetNote(), Asked: e.GetAsked(), CPU: e.GetCpu(), Wait: e.GetWait(), Memory: e.GetMemory()}
	}
	return nil
}
