// The entry point.

import { jobPage } from "./job.js";
import { overview } from "./overview.js";
import { search } from "./search.js";
import { banner, listen } from "./stream.js";
import { tick } from "./time.js";

const show = document.body.dataset.page === "job" ? jobPage() : overview;
setInterval(() => { tick(); banner(); }, 1000);
search();
listen(show);
