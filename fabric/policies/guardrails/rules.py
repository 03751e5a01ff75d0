"""The shipped rules: name, description, and patterns in RE2 syntax. The first group of a pattern, where it has one,
is the hit.

A pattern is written so that its corpus of hard negatives stays silent; ``accepts`` has the checks that need a
computation.
"""

from __future__ import annotations

from dataclasses import dataclass

from fabric.policies.guardrails import accepts
from fabric.policies.guardrails.accepts import Accepts


@dataclass(frozen=True, slots=True)
class RulePattern:
    """One pattern of a rule."""

    name: str
    pattern: str
    accepts: Accepts | None = None
    """Function that decides if a match counts; None: it always does."""


@dataclass(frozen=True, slots=True)
class GuardrailRule:
    """Patterns under one name, for a fabric to choose."""

    name: str
    finds: str
    patterns: tuple[RulePattern, ...]


_real = accepts.real

CREDENTIALS = GuardrailRule(
    "credentials",
    "keys, tokens, passwords and private keys",
    (
        RulePattern("private_key", r"-----BEGIN (?:[A-Z]+ ){0,2}PRIVATE KEY(?: BLOCK)?-----"),
        RulePattern("aws_access_key", r"\b((?:AKIA|ASIA|AIDA|AROA)[A-Z2-7]{16})\b", _real),
        RulePattern(
            "aws_secret_key",
            r"(?i)aws_?secret_?(?:access_?)?key[\"']?\s*[:=]\s*[\"']?([a-z0-9/+]{40})(?:[^a-z0-9/+]|$)",
            _real,
        ),
        RulePattern("github_token", r"\b(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255})", _real),
        RulePattern("gitlab_token", r"\b(glpat-[A-Za-z0-9_-]{20,64})", _real),
        RulePattern("slack_token", r"\b(xox[abeprs]-[A-Za-z0-9-]{16,255})", _real),
        RulePattern(
            "slack_webhook", r"(hooks\.slack\.com/services/T[A-Z0-9]{6,12}/B[A-Z0-9]{6,12}/[A-Za-z0-9]{20,40})", _real
        ),
        RulePattern("stripe_key", r"\b([rs]k_live_[A-Za-z0-9]{20,255})", _real),
        RulePattern(
            "model_provider_key",
            r"\b(sk-(?:proj-|svcacct-|admin-|ant-)?[A-Za-z0-9_-]*[A-Za-z0-9]{20}[A-Za-z0-9_-]*)",
            _real,
        ),
        RulePattern(
            "google_key", r"\b(AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{28}|ya29\.[A-Za-z0-9_-]{30,})", _real
        ),
        RulePattern("sendgrid_key", r"\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})", _real),
        RulePattern("npm_token", r"\b(npm_[A-Za-z0-9]{36})\b", _real),
        RulePattern("pypi_token", r"\b(pypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,})", _real),
        RulePattern("hugging_face_token", r"\b(hf_[A-Za-z0-9]{34})\b", _real),
        RulePattern("telegram_token", r"\b(?:bot)?(\d{8,10}:AA[A-Za-z0-9_-]{33})\b", _real),
        RulePattern("digitalocean_token", r"\b(do[opr]_v1_[a-f0-9]{64})\b", _real),
        RulePattern("azure_account_key", r"AccountKey=([A-Za-z0-9+/]{86}==)", _real),
        RulePattern("age_key", r"\b(AGE-SECRET-KEY-1[A-Z0-9]{58})\b", _real),
        RulePattern("json_web_token", r"\b(eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{16,})", _real),
        RulePattern(
            "authorization",
            r"(?i)\b(?:authorization[\"']?\s*[:=]\s*[\"']?)?(?:bearer|basic)\s+([a-z0-9._~+/-]{20,}=*)",
            accepts.password,
        ),
        RulePattern(
            "url_password",
            r"(?i)\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@?#]*:([^\s:/@]{3,200})@[a-z0-9\[]",
            accepts.url_password,
        ),
        RulePattern(
            "assigned",
            r"(?i)(?:password|passwd|passphrase|pwd|secret|api[_-]?key|(?:access|auth|api|refresh)[_-]?token|client[_-]?secret|secret[_-]?key)"
            r"[\"']?\s*(?:[:=]|\bis\b)\s*[\"']?([^\s\"',;]{8,200})",
            accepts.password,
        ),
    ),
)

_DATE = r"(?:\d{4}-\d\d-\d\d|\d{1,2}[./-]\d{1,2}[./-](?:19|20)\d\d|\d{1,2}(?:st|nd|rd|th)? [A-Z][a-z]{2,8} (?:19|20)\d\d|[A-Z][a-z]{2,8} \d{1,2}, (?:19|20)\d\d)"

PERSONAL_DATA = GuardrailRule(
    "personal_data",
    "people's addresses, numbers and dates",
    (
        RulePattern("email", r"(?i)\b([a-z0-9._%+-]{1,64}@(?:[a-z0-9-]{1,63}\.){1,6}[a-z]{2,24})\b", accepts.person),
        RulePattern("payment_card", r"(?:^|[^\w.-])([3-6]\d(?:[ -]?\d){11,17})(?:[^\w-]|$)", accepts.card),
        RulePattern("iban", r"\b([A-Z]{2}\d\d(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?)\b", accepts.iban),
        RulePattern("social_security_number", r"(?:^|[^\w-])(\d{3}-\d\d-\d{4})(?:[^\w-]|$)", accepts.ssn),
        RulePattern(
            "phone",
            r"(?:^|[^\w+])(\+[1-9]\d{0,2}[ ./-]?(?:\(\d{1,4}\)[ ./-]?)?\d{1,4}(?:[ ./-]?\d{2,4}){2,5})\b",
            accepts.phone,
        ),
        RulePattern("national_phone", r"(?:^|[^\w])(\([2-9]\d\d\) ?[2-9]\d\d-\d{4})\b", accepts.phone),
        RulePattern(
            "date_of_birth", rf"(?i:\b(?:date of birth|born(?: on)?|dob|d\.o\.b\.|birthday))\s*[:=]?\s*({_DATE})"
        ),
        RulePattern(
            "passport", r"(?i)\bpassport(?: no\.?| number| nr\.?)?\s*(?:[:#]|is)?\s*([a-z]{1,2}\d{6,8}|\d{9})\b"
        ),
        RulePattern("national_insurance_number", r"\b([A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D])\b"),
        RulePattern(
            "medical_record", r"(?i)\b(?:mrn|medical record (?:no\.?|number)|patient id)\s*[:#]\s*([a-z0-9-]{5,20})\b"
        ),
    ),
)

_END = r"(?:\s|[;&|\"'`)]|$)"
_ROOTS = r"(?:/(?:\*|bin|boot|data|dev|etc|home|lib|opt|root|srv|sys|usr|var)?(?:/\*?)?|~(?:/\*?)?|\$\{?HOME\}?(?:/\*?)?|\*|\.{1,2}(?:/\*?)?|[A-Za-z]:\\?\*?)"
_PRIVATE = r"(?:/(?:etc|home|root|proc)/|~/\.|\.env)"
_SENDS = r"\s(?:-d|--data(?:-binary|-raw|-urlencode)?|-F|--form|-T|--upload-file)\s*[\"']?(?:\w+=)?"
_TABLE = r"[`\"\[]?\w+[`\"\]]?(?:\.[`\"\[]?\w+[`\"\]]?)?"

DESTRUCTIVE_COMMANDS = GuardrailRule(
    "destructive_commands",
    "shell and SQL that destroys what cannot be brought back",
    (
        RulePattern(
            "remove_all",
            rf"\brm\s+(?:-[a-zA-Z-]+\s+)*-(?:[a-zA-Z]*[rR][a-zA-Z]*|-recursive)\s+(?:-[a-zA-Z-]+\s+)*(?:--\s+)?[\"']?{_ROOTS}{_END}",
        ),
        RulePattern("no_preserve_root", r"--no-preserve-root"),
        RulePattern("make_filesystem", r"\bmkfs(?:\.\w+)?\s+(?:-[^\n;|&]*\s)?/dev/\w+"),
        RulePattern("write_device", r"(?:\bof=|>\s*)/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk)\w*"),
        RulePattern("wipe_device", r"\b(?:shred|wipefs|blkdiscard)\s+(?:-[^\n;|&]*\s)?/dev/\w+"),
        RulePattern("fork_bomb", r":\(\)\s*\{\s*:\s*\|\s*:\s*&\s*\}\s*;\s*:"),
        RulePattern(
            "change_all_modes",
            rf"\b(?:chmod|chown)\s+(?:-[a-zA-Z]+\s+)*-[a-zA-Z]*R[a-zA-Z]*\s+\S+\s+/(?:etc|usr|var|home|bin)?/?{_END}",
        ),
        RulePattern("find_delete", r"\bfind\s+(?:/|~|\$HOME)\s+(?:[^|;&\n]*\s)?-(?:delete\b|exec\s+rm\b)"),
        RulePattern("windows_remove", r"(?i)\b(?:del|rd|rmdir|erase)\s+(?:/[a-z]\s+)*/s\s+(?:/[a-z]\s+)*\"?[a-z]:\\"),
        RulePattern(
            "powershell_remove",
            r"(?i)\bremove-item\s[^|;\n]*-recurse\b[^|;\n]*\b[a-z]:\\(?:\*|windows|users)?(?:\s|\"|'|$)|\bremove-item\s[^|;\n]*\b[a-z]:\\(?:\*|windows|users)?[\"']?\s[^|;\n]*-recurse\b",
        ),
        RulePattern("windows_format", r"(?i)\bformat\s+[a-z]:(?:\s|$)"),
        RulePattern("shadow_copies", r"(?i)\bvssadmin(?:\.exe)?\s+delete\s+shadows"),
        RulePattern("cluster", r"\bkubectl\s+delete\s+(?:(?:ns|namespaces?)\s+\S+|\S+\s+(?:-\S+\s+)*--all\b)"),
        RulePattern("infrastructure", r"\b(?:terraform|tofu)\s+(?:apply\s+-destroy|destroy)\b[^\n]*-auto-approve"),
        RulePattern("buckets", r"\baws\s+s3\s+(?:rb\s+[^\n]*--force|rm\s+s3://[\w.-]+/?\s+[^\n]*--recursive)"),
        RulePattern(
            "containers",
            r"\bdocker\s+(?:system|volume)\s+prune\s+[^\n]*(?:-[a-z]*a[a-z]*f?\b[^\n]*--volumes|--all --force|-af\b)",
        ),
        RulePattern(
            "history",
            r"\bgit\s+push\s+[^\n]*(?:--force|-f)\s+[^\n]*\b(?:main|master)\b|\bgit\s+push\s+[^\n]*\b(?:main|master)\s+(?:--force|-f)(?:\s|$)",
        ),
        RulePattern(
            "drop",
            rf"(?i)\bdrop\s+(?:table|database|schema)\s+(?:if\s+exists\s+)?{_TABLE}(?:\s*,\s*{_TABLE})*\s*(?:cascade\s*)?(?:;|--|$)",
        ),
        RulePattern("truncate", rf"(?i)\btruncate\s+table\s+{_TABLE}|\btruncate\s+{_TABLE}\s*(?:cascade\s*)?;"),
        RulePattern("delete_all", rf"(?i)\bdelete\s+from\s+{_TABLE}\s*(?:where\s+(?:1\s*=\s*1|true)\s*)?(?:;|--|$)"),
        RulePattern(
            "update_all",
            rf"(?i)\bupdate\s+{_TABLE}\s+set\s+\w+\s*=\s*(?:'[^']*'|\w+)\s*(?:where\s+(?:1\s*=\s*1|true)\s*)?;",
        ),
        RulePattern("flush", r"(?i)\bredis-cli\s+(?:-\S+\s+\S+\s+)*flush(?:all|db)\b|\bdb\.dropDatabase\(\)"),
    ),
)

_DROPS = (
    r"(?:webhook\.site|requestbin\.(?:com|net)|[\w.-]+\.x?pipedream\.net|[\w.-]+\.ngrok(?:-free)?\.(?:io|app|dev)|[\w.-]+\.burpcollaborator\.net"
    r"|[\w.-]+\.oast(?:ify\.com|\.(?:fun|pro|live|site|online|me))|[\w.-]+\.interact\.sh|[\w.-]+\.dnslog\.cn|[\w.-]+\.requestcatcher\.com"
    r"|transfer\.sh|file\.io|[\w.-]+\.trycloudflare\.com|beeceptor\.com|[\w-]+\.beeceptor\.com|termbin\.com|0x0\.st)"
)
_CARRIER = r"(?:data|payload|secret|token|leak|exfil|stolen|dump|content|conversation|history|context|prompt|env|cookie|msg|b64|base64|d|q|p|x|c)"

EXFILTRATION_LINKS = GuardrailRule(
    "exfiltration_links",
    "links, images and uploads that carry read text to another party",
    (
        RulePattern("drop_host", rf"(?i)\bhttps?://{_DROPS}(?:[/:?#\s\"')]|$)"),
        RulePattern(
            "image_with_data", rf"(?i)!\[[^\]\n]{{0,200}}\]\(\s*<?https?://[^\s)>]{{1,300}}[?&]{_CARRIER}=[^\s)&]{{8,}}"
        ),
        RulePattern(
            "image_template",
            r"(?i)!\[[^\]\n]{0,200}\]\(\s*<?https?://[^\s)>]{1,300}[?&=/][{\[<](?:data|secret|token|conversation|user|context|summary|history|api_?key|password|content)",
        ),
        RulePattern(
            "html_image",
            rf"(?i)<(?:img|iframe|script|link|source|embed)\b[^>]{{0,300}}\b(?:src|href)\s*=\s*[\"']?https?://[^\s\"'>]{{1,300}}[?&]{_CARRIER}=[^\s\"'>&]{{8,}}",
        ),
        RulePattern(
            "encoded_parameter",
            r"(?i)\bhttps?://[^\s\"'<>)]{1,300}[?&](?:data|payload|secret|leak|exfil|dump|conversation|history|context|prompt|env|b64|base64)=[a-z0-9+/_%-]{40,}=*",
        ),
        RulePattern(
            "encoded_host",
            r"(?i)\bhttps?://(?:[a-z0-9-]{40,63}\.){1,4}[a-z0-9-]{1,63}\.[a-z]{2,10}\b",
            accepts.encoded_host,
        ),
        RulePattern(
            "upload",
            rf"(?i)\bcurl\b[^\n|;]{{0,300}}{_SENDS}@?(?:\$\(|`|@?{_PRIVATE})[^\n]{{0,300}}https?://|\bcurl\b[^\n|;]{{0,300}}https?://[^\n|;]{{0,300}}{_SENDS}@?(?:\$\(|`|{_PRIVATE})",
        ),
        RulePattern(
            "post_file",
            rf"(?i)\bwget\b[^\n|;]{{0,300}}--post-(?:file|data)=[\"']?(?:\$\(|`|{_PRIVATE})",
        ),
        RulePattern(
            "pipe_out",
            r"(?i)(?:\bcat\s+\S*(?:\.env|id_[rd]sa|/etc/(?:passwd|shadow)|credentials|\.pem|\.netrc)\S*|\b(?:env|printenv))\s*\|\s*(?:base64\s*(?:-w\s*0\s*)?\|\s*)?(?:curl|nc|ncat|wget|socat)\b",
        ),
        RulePattern("raw_socket", r"/dev/tcp/[\w.-]+/\d{1,5}"),
    ),
)

_READER = r"(?:reviewer|grader|evaluator|judge|critic|verifier|auditor|moderator|approver|assessor|checker|validator)"
_MODEL = r"(?:ai|llm|assistant|model|agent|language model|chatbot|system)"

REVIEWER_INSTRUCTIONS = GuardrailRule(
    "reviewer_instructions",
    "sentences that tell a reviewer, person or model, what to decide",
    (
        RulePattern(
            "ignore_instructions",
            r"(?i)\b(?:ignore|disregard|forget|override|bypass)\s+(?:all\s+|any\s+|everything\s+in\s+)?(?:of\s+)?(?:the\s+|your\s+|my\s+|these\s+)?(?:previous|prior|above|earlier|preceding|system|original|safety|review|grading)\s+(?:\w+\s+)?(?:instructions?|prompts?|rules?|guidelines?|directions?|criteria|rubric|messages?|context)",
        ),
        RulePattern(
            "ignore_told",
            r"(?i)\b(?:ignore|disregard|forget)\s+(?:everything|all|anything)\s+(?:that\s+)?(?:you\s+(?:were|have been|'ve been)\s+told|above|before this)",
        ),
        RulePattern(
            "addressed",
            rf"(?i)\b(?:note|message|instructions?|attention|memo|reminder|hint|notice)\s+(?:to|for)\s+(?:the\s+|all\s+|any\s+)?(?:\w+\s+)?(?:{_READER}|{_MODEL})s?\s*(?::|-|,|\()",
        ),
        RulePattern(
            "dear_reviewer",
            rf"(?i)\b(?:dear|hello|hey|hi|attention)[, ]+(?:\w+\s+)?{_READER}s?\b\s*[,:!-][^\n]{{0,80}}\b(?:approve|accept|pass|score|mark|rate|skip|grade|trust|do not|don't|no need)\b",
        ),
        RulePattern(
            "if_you_review",
            rf"(?i)\bif you are (?:an?|the)\s+(?:\w+\s+)?(?:{_READER}|{_MODEL})\b[^\n]{{0,80}}\b(?:approve|accept|pass|score|mark|rate|grade|say|reply|respond|output|ignore|stop)\b",
        ),
        RulePattern(
            "as_reviewer",
            rf"(?i)\b(?:as|you,)\s+(?:an?|the)\s+(?:\w+\s+)?{_READER},?\s+(?:you\s+(?:must|should|will|have to|need to)|please|just|simply|always)\s+(?:\w+\s+)?(?:approve|accept|pass|give|score|mark|rate|grade|ignore)\b",
        ),
        RulePattern(
            "reader_must",
            rf"(?i)\b(?:the\s+)?{_READER}\s+(?:must|has to|is required to|is instructed to|shall)\s+(?:now\s+)?(?:approve|accept|pass|give (?:this|it|a|full)|score (?:this|it)|mark (?:this|it)|rate (?:this|it)|skip|ignore)\b",
        ),
        RulePattern(
            "demand_score",
            r"(?i)\b(?:give|assign|award|return|output|set|report)\s+(?:this|it|the answer|the output|us|me|the submission)?\s*(?:an?\s+|the\s+)?(?:confidence\s+|review\s+)?(?:perfect|full|maximum|highest|top|passing)\s+(?:possible\s+)?(?:score|marks?|rating|grade|confidence)\b",
        ),
        RulePattern(
            "demand_number",
            r"(?i)\b(?:please\s+)?(?:score|rate|grade|mark)\s+(?:this|it|the (?:answer|output|submission|response))\s+(?:as\s+|at\s+|with\s+(?:a\s+)?)?(?:1\.0|100\s?%|10\s?/\s?10|5\s?/\s?5|10 out of 10|passed|correct|safe|approved)\b",
        ),
        RulePattern(
            "do_not_flag",
            r"(?i)\b(?:do not|don't|never|there is no need to|no need to)\s+(?:flag|escalate|report|reject|block|question|double-check|verify)\s+(?:this|the (?:answer|output|following|response|content|text|submission|section))\b",
        ),
        RulePattern(
            "pre_approved",
            r"(?i)\b(?:this|the)\s+(?:output|answer|content|response|submission|payload|call|document|text)\s+(?:has|have)\s+(?:already\s+)?been\s+(?:pre-?)?(?:approved|cleared|verified|whitelisted)\b[^\n]{0,60}\b(?:skip|no (?:further )?(?:review|check|verification)|without (?:further )?(?:review|check))",
        ),
        RulePattern(
            "approve_at_once",
            r"(?i)\b(?:approve|accept|pass)\s+(?:this|it|the (?:answer|output|submission|request|call))\s+(?:immediately|without (?:further )?(?:review|question|checks?|reading)|unconditionally|automatically|no matter what)\b",
        ),
        RulePattern(
            "forged_turn",
            r"(?i)(?:<\|im_start\|>|<\|(?:system|assistant|user)\|>|\[/?INST\]|<</?SYS>>|(?:^|\n)\s*(?:#{2,}\s*)?(?:system|developer)\s+(?:prompt|message|override)\s*:)",
        ),
    ),
)

_DOES = r"(?:call|execute|run|invoke|use|send|transfer|delete|cancel|forward|email|mail|post|upload|book|pay|buy|approve|remove|change|grant)"
_ADDRESSEE = r"(?:ai|ai assistant|ai agent|ai model|language model|llm|chatbot)"

AGENT_INSTRUCTIONS = GuardrailRule(
    "agent_instructions",
    "sentences that give an agent another task than its own",
    (
        RulePattern(
            "before_your_task",
            r"(?i)\b(?:before|instead of)\s+(?:you\s+)?(?:can\s+)?(?:solv|answer|complet|continu|finish|proceed)(?:e|ing)?\s+(?:with\s+)?(?:the|your|this|that)\s+(?:original\s+|current\s+|user'?s\s+)?(?:task|request|question)\b[^\n]{0,160}\b(?:do the following|you (?:must|should|have to|need to)|please first|first of all)\b",
        ),
        RulePattern(
            "new_instructions",
            r"(?i)\b(?:these|here|following)\s+(?:are|is)\s+your\s+(?:new|real|actual|updated|true)\s+(?:instructions?|tasks?|goals?|objectives?|orders?)\b",
        ),
        RulePattern(
            "replaces_task",
            r"(?i)\byour\s+(?:new|real|actual|updated|true)\s+(?:instructions?|tasks?|goals?|objectives?|orders?)\s+(?:is|are)\s*(?::|\s(?:now\s+)?(?:to\b|the following|as follows))",
        ),
        RulePattern(
            "told_to_act",
            rf"(?i)\b{_ADDRESSEE},?\s+(?:reading this,?\s+)?(?:you\s+)?(?:must|has to|have to|should|shall|needs? to)\s+(?:now\s+|first\s+|immediately\s+|also\s+)?{_DOES}\b",
        ),
        RulePattern(
            "spoken_to",
            rf"(?i)(?:^|[\n.!?]\s*)(?:(?:dear|hey|hello|attention)\s+)?(?:ai\s+)?(?:assistant|agent|model|chatbot|ai)\s*[,:!]\s*(?:please|you must|you should|you have to|now|immediately)\s+(?:now\s+|immediately\s+|also\s+)?{_DOES}\b",
        ),
        RulePattern(
            "message_to_model",
            r"(?i)\bmessage\s+from\s+[^\n]{1,80}?\bto\s+you,\s+(?:the\s+)?(?:ai|assistant|agent|language model|llm|gpt[\w.-]*|claude|gemini|llama)\b",
        ),
        RulePattern(
            "kept_from_user",
            r"(?i)\b(?:do not|don't|never|without)\s+(?:tell(?:ing)?|inform(?:ing)?|alert(?:ing)?|notify(?:ing)?|mention(?:ing)?\s+(?:this|it)\s+to)\s+the\s+(?:user|human|operator)\b",
        ),
        RulePattern(
            "forged_system",
            r"(?i)(?:^|\n)\s*(?:\[|<|\*\*)?system(?:\]|>|\*\*)?\s*:?\s*(?:you (?:must|are now|will now|have to)|ignore|new (?:instructions?|task)|override)\b",
        ),
    ),
)

RULES: tuple[GuardrailRule, ...] = (
    CREDENTIALS,
    PERSONAL_DATA,
    DESTRUCTIVE_COMMANDS,
    EXFILTRATION_LINKS,
    REVIEWER_INSTRUCTIONS,
    AGENT_INSTRUCTIONS,
)
"""Every shipped rule."""
