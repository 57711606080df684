-- Hits on tracked links by many people in turn.
local number = 0
local paths = {}
for path in string.gmatch(os.getenv("PATHS"), "%S+") do
  paths[#paths + 1] = path
end

wrk.headers["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:144.0) Gecko/20100101 Firefox/144.0"

function request()
  number = number + 1
  return wrk.format("GET", paths[number % #paths + 1])
end

function done(summary)
  local errors = summary.errors
  local broken = errors.read + errors.write + errors.connect + errors.timeout
  io.write(string.format(
    "RESULT %d %d %d %d\n", summary.requests, summary.duration, errors.status, broken))
end
