-- Sign-ups of addresses that nobody has signed up before.
local number = 0
local turn, list = os.getenv("TURN"), os.getenv("LIST")

wrk.headers["Authorization"] = "Bearer " .. os.getenv("API_KEY")
wrk.headers["Content-Type"] = "application/json"

function request()
  number = number + 1
  local body = string.format(
    '{"email_address":"reader%s-%d@example.com","list_name":"%s"}', turn, number, list)
  return wrk.format("POST", nil, nil, body)
end

function done(summary)
  local errors = summary.errors
  local broken = errors.read + errors.write + errors.connect + errors.timeout
  io.write(string.format(
    "RESULT %d %d %d %d\n", summary.requests, summary.duration, errors.status, broken))
end
