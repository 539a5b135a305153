package look

import (
	"strings"
	"unicode"
)

// What people call the column to predict, in lower case and without signs: names that nothing else has, and those that are so only at an
// end of the table, or only at its last, as features have them, too.
var (
	sureTargets = []string{"target", "targets", "label", "labels", "groundtruth", "survived", "churn", "churned", "diagnosis", "outcome", "response", "class", "classes", "y",
		"exited", "attrition", "defaulted", "defaultpaymentnextmonth", "isfraud", "fraudreported", "saleprice", "sellingprice", "medv", "medianhousevalue", "heartdisease",
		"tenyearchd", "deathevent", "loanstatus", "loanapproved", "personalloan", "creditrisk", "riskflag", "seriousdlqin2yrs", "sentiment", "denied", "deny", "isspam",
		"readmitted", "clicked", "clickedonad", "converted", "promoted", "noshow", "iscanceled", "bookingstatus", "raintomorrow", "potability", "fetalhealth", "nobeyesdad",
		"pricerange", "chanceofadmit", "csmpa", "compressivestrength", "criticaltemp", "classtype", "totalupdrs", "finalgrade", "rentedbikecount", "custcat", "cultivar",
		"classification", "classlabel", "averageprice", "bodyfat", "lifeexpectancy", "lifeexp"}
	atEnds = []string{"species", "variety", "default", "fraud", "quality", "price", "mpg", "charges", "salary", "wage", "wages", "earnings", "revenue", "profit", "cnt", "stroke",
		"purchase", "purchased", "subscribed", "deposit", "approved", "spam", "result", "win", "winner", "demand", "yield", "strength", "vote", "voted",
		"admit", "admitted", "tip", "tips", "fareamount", "tripduration", "rings", "loss", "lifeexpectancy", "lifeexp", "survival", "survivaltime", "choice",
		"close", "output", "cost", "visits", "participation", "claims", "incidents", "sales", "duration", "count", "rating", "score", "grade", "risk",
		"satisfaction", "occupancy", "direction", "severity", "decision", "digit", "activity", "emotion", "genre", "died", "dead", "death", "mortality", "relapse",
		"recurrence", "passed", "bought", "sold", "placed", "hired", "paid", "won", "g3", "emissions", "acceptability", "cardio", "disease", "cancer", "injury", "popularity",
		"points", "mark", "marks", "gpa", "bikers", "rentals", "attendance"}
	atLast     = []string{"income", "balance", "category", "type", "status", "consumption", "growth", "area", "shares", "pe", "drug", "num"} // of which one at the beginning is a feature, as a rule
	beginnings = []string{"survived", "churned", "predicted", "died", "recovered"}                                                           // as in survived_1_year
	wholes     = []string{"global", "total", "overall", "final"}                                                                             // of a series' parts
	loose      = []string{"class", "classes", "type", "status", "category", "y", "label", "labels", "response"}                              // words of features' names
	// amounts are never classes.
	amounts = []string{"price", "charges", "salary", "wage", "wages", "earnings", "revenue", "profit", "cnt", "demand", "strength", "fareamount", "tripduration", "lifeexpectancy",
		"lifeexp", "close", "cost", "sales", "duration", "income", "balance", "saleprice", "sellingprice", "averageprice", "medv"}
	// features are what people predict from, as a rule.
	features = []string{"age", "sex", "gender", "race", "ethnicity", "ethnic", "religion", "married", "marital", "education", "educ", "school", "schooling", "occupation", "job", "jobs", "department",
		"country", "nationality", "state", "county", "city", "region", "district", "province", "zip", "zipcode", "continent", "location", "neighborhood", "neighbourhood", "street", "address", "urban", "rural", "us",
		"south", "north", "east", "west", "latitude", "lat", "longitude", "lon", "long", "lng", "x", "y", "z", "smoker", "smoke", "smoking", "black", "white", "hispanic", "foreign", "male", "female",
		"name", "names", "model", "brand", "make", "manufacturer", "color", "colour", "comment", "comments", "notes", "url", "treatment", "trt", "treat", "dose", "arm", "group", "block", "site", "batch",
		"subject", "patient", "height", "weight", "bmi", "embarked", "train", "fold", "split", "trial", "experience", "tenure", "union", "kids", "children", "size", "population", "pop", "code", "index", "number", "no",
		"currency", "unit", "units", "language", "platform", "publisher", "temperature", "humidity", "volume"}
	anywhere = []string{"price"} // of a table that has no other such name
	times    = []string{"year", "month", "day", "date", "time", "hour", "week", "timestamp", "datetime", "quarter", "period", "minute", "second", "weekday"}
)

func nameOf(column string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return -1
	}, strings.ToLower(column))
}

// notOfWord separates the words of a name.
func notOfWord(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) }
