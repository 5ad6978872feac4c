//! The text about a scan.

use super::ScanReport;

impl ScanReport {
    /// Counts directories, packages and commands.
    pub fn summary(&self) -> String {
        let packages = count(&self.records);
        let ScanReport { scanned, reused, started, .. } = self;
        let mut text = format!(
            "{packages} packages in {} directories: {scanned} scanned, {reused} unchanged\nCommands run: {started}\n",
            scanned + reused
        );
        if self.verified > 0 {
            text += &format!("{} scanned again for comparison: {} differ\n", self.verified, self.differing.len());
        }
        text
    }

    /// A line for each package that is made twice, and each directory that gave no answer, with its log.
    pub fn complaints(&self) -> String {
        let mut text = String::new();
        for duplicate in &self.duplicates {
            text += &format!("tanto: warning: {}\n", duplicate.message());
        }
        for (location, log) in &self.failed {
            text += &format!("tanto: error: {location} cannot be scanned:\n{log}");
        }
        for location in &self.differing {
            text += &format!(
                "tanto: error: {location}: a new scan gives a different result, but no recorded input has changed\n"
            );
        }
        text
    }
}

fn count(records: &[u8]) -> usize {
    records.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"PKGNAME=")).count()
}
